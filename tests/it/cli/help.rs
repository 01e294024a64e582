use clap::Command;

/// Every verb that does something, with the words that lead to it.
fn verbs(command: &Command, path: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut found = Vec::new();
    for verb in command.get_subcommands() {
        let path = [path, &[verb.get_name().to_owned()]].concat();
        if verb.has_subcommands() {
            found.extend(verbs(verb, &path));
        } else {
            found.push((path, verb.clone()));
        }
    }
    found
}

fn all() -> Vec<(Vec<String>, Command)> {
    let found = verbs(&host_affine::cli::command(), &["host-affine".to_owned()]);
    assert!(found.len() > 15, "{}", found.len());
    found
}

#[test]
fn every_verb_says_what_it_does_with_examples_that_are_understood() {
    for (path, verb) in all() {
        let name = path.join(" ");
        assert!(verb.get_about().is_some(), "{name} does not say what it does");
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no example"));
        let own = examples.lines().filter(|line| line.contains(&name));
        assert!(own.count() > 0, "{name}: no example is of it");
        for line in examples.lines() {
            // A pipe or a file for its output is the shell's.
            for part in line.split('|').map(str::trim).filter(|part| part.starts_with("host-affine")) {
                let typed = part.split('>').next().unwrap_or_default().replace('\'', "");
                let parsed = host_affine::cli::command().try_get_matches_from(typed.split_whitespace());
                assert!(
                    parsed.is_ok(),
                    "`{part}`: {}",
                    parsed.err().map(|e| e.to_string()).unwrap_or_default()
                );
            }
        }
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    for (path, verb) in all() {
        let mut page = Vec::new();
        clap_mangen::Man::new(verb).render(&mut page).expect("rendered");
        let page = String::from_utf8(page).expect("text");
        assert!(page.contains("Examples:"), "{path:?}: {page}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    clap_mangen::generate_to(host_affine::cli::command(), dir.path()).expect("written");
    assert!(dir.path().join("host-affine-ipam-show.1").is_file());
}
