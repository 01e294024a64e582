//! The documents: their links lead somewhere, their sentences are short, and their examples work.

mod elsewhere;
mod examples;
mod markdown;
mod prose;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use super::{files, read, root, rust_files, tests_named};
use markdown::Document;

/// No sentence has more words.
const WORDS_MAX: usize = 30;
/// The sentences of a document have at most so many words on average.
const WORDS_ON_AVERAGE_MAX: usize = 16;

/// The documents that people read, by their paths from the root of the tree.
fn documents() -> Vec<(String, String, Document)> {
    let mut names =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(str::to_owned).to_vec();
    names.extend(files("docs").into_iter().filter(|name| has_extension(name, "md")));
    assert!(names.len() > 12, "{names:?}");
    let read = |name: String| {
        let text = read(&name);
        let document = Document::parse(&text);
        (name, text, document)
    };
    names.into_iter().map(read).collect()
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

#[test]
fn sentences_are_short() {
    let mut found = Vec::new();
    for (name, _, document) in documents() {
        let sentences = prose::sentences(&document.prose);
        let words: Vec<usize> = sentences.iter().map(|sentence| prose::words(sentence)).collect();
        for (sentence, words) in sentences.iter().zip(&words).filter(|(_, words)| **words > WORDS_MAX) {
            found.push(format!("{name}: {words} words: {sentence}"));
        }
        let all: usize = words.iter().sum();
        if all > words.len() * WORDS_ON_AVERAGE_MAX {
            found.push(format!("{name}: {all} words in {} sentences", words.len()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut wrong = Vec::new();
    for (name, _, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://")) {
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { Some(name.clone()) } else { within_tree(name, path) };
            let exists = target.as_ref().is_some_and(|target| root().join(target).exists());
            let of_target = documents.iter().find(|(name, ..)| Some(name) == target.as_ref());
            let has_anchor =
                |(_, _, document): &(_, _, Document)| document.anchors.iter().any(|a| a == fragment);
            if !exists || !fragment.is_empty() && !of_target.is_some_and(has_anchor) {
                wrong.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Each page is found from the first one.
    let readme = &documents.first().expect("the README").2;
    let linked = |name: &String| readme.links.iter().any(|link| link.split('#').next() == Some(name));
    let lost: Vec<_> = documents.iter().skip(1).map(|(name, ..)| name).filter(|name| !linked(name)).collect();
    assert!(lost.is_empty(), "the README does not lead to {lost:?}");
}

/// The path from the root of the tree; `None`: it leaves the tree.
fn within_tree(document: &str, link: &str) -> Option<String> {
    let mut path = PathBuf::from(document);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path.to_str()?.to_owned())
}

#[test]
fn documents_point_at_nothing_outside_the_tree() {
    let mut found = Vec::new();
    for (name, text, _) in documents() {
        found.extend(unsuitable(&text).map(|words| format!("{name}: {words}")));
    }
    assert!(found.is_empty(), "{found:?}");
}

/// References to documents that readers do not have, and words that documents do not use.
fn unsuitable(text: &str) -> impl Iterator<Item = &str> {
    static PATTERN: LazyLock<regex::Regex> = LazyLock::new(|| {
        let references = r"\bF\d\d?\b|\b[Rr]ows? \d|\b[Dd]eviations? \d|\bdesign\.md\b|\.\./shared\b";
        let words = r"\b([Ww]hoever|[Aa]new|[Bb]eside|kept back|takes over|took over)\b";
        regex::Regex::new(&format!("{references}|{words}")).expect("a pattern")
    });
    PATTERN.find_iter(text).map(|found| found.as_str())
}

#[test]
fn documents_name_what_exists() {
    let source: String =
        ["src", "tests"].iter().flat_map(|folder| rust_files(folder)).map(|file| read(&file)).collect();
    let scripts: String = files("scripts").iter().map(|file| read(file)).collect();
    let variable = regex::Regex::new("HOST_AFFINE_[A-Z0-9_]+").expect("a pattern");
    let mut missing = Vec::new();
    for (name, text, document) in documents() {
        let unknown = |variable: &str| !source.contains(variable) && !scripts.contains(variable);
        let variables = variable.find_iter(&text).map(|found| found.as_str());
        missing.extend(variables.filter(|name| unknown(name)).map(|variable| format!("{name}: {variable}")));
        let is_path = |code: &&String| {
            let begins =
                ["src/", "tests/", "testdata/", "docs/", "examples/"].iter().any(|top| code.starts_with(top));
            begins && !code.contains(['<', '*', ' ', '…']) && !code.contains("NAME")
        };
        let paths = document.code.iter().filter(is_path).filter(|path| !root().join(path).exists());
        missing.extend(paths.map(|path| format!("{name}: {path}")));
        for script in scripts_of(&text) {
            let is_source = Path::new(&script).extension().is_some();
            match fs::metadata(root().join(&script)) {
                Ok(meta) if is_source || meta.permissions().mode() & 0o111 != 0 => {}
                _ => missing.push(format!("{name}: {script}")),
            }
        }
    }
    // Modules and functions, by their paths.
    let names = tests_named(&["tests/it", "src"]);
    let is_module = regex::Regex::new("^[a-z_]+(::[a-z_]+)+$").expect("a pattern");
    for (name, _, document) in documents() {
        let modules = document.code.iter().filter(|code| is_module.is_match(code));
        let exists = |path: &&String| path.split("::").all(|part| names.contains(part));
        missing.extend(modules.filter(|path| !exists(path)).map(|path| format!("{name}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
    let promised = scripts_of(&read("README.md"));
    for script in ["scripts/quickstart", "scripts/test", "scripts/build", "scripts/bench"] {
        assert!(promised.contains(script), "the README does not name {script}");
    }
}

#[test]
fn command_lines_in_documents_are_understood() {
    let mut count = 0;
    for (name, text, document) in documents() {
        for line in command_lines_of(&text, &document) {
            count += 1;
            let command = line.split(['|', '>', '&']).next().unwrap_or_default();
            // Help is printed instead of anything done, for a verb that there is and options that it has.
            let words = command.split_whitespace().skip(1).take_while(|word| !word.starts_with('-'));
            let help = Command::new(env!("CARGO_BIN_EXE_host-affine")).args(words).arg("--help").output();
            let help = help.expect("the plugin runs");
            assert!(help.status.success(), "{name}: `{line}`: {}", String::from_utf8_lossy(&help.stderr));
            let help = String::from_utf8_lossy(&help.stdout);
            for option in command.split_whitespace().filter(|word| word.starts_with('-')) {
                let option = option.split('=').next().unwrap_or_default();
                assert!(has_option(&help, option), "{name}: `{line}`: {option} is not in its help");
            }
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn examples_in_documents_work() {
    let mut problems = Vec::new();
    for (name, text, document) in documents() {
        problems
            .extend(examples::run(&document, &text).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn examples_run_elsewhere_have_their_tests() {
    let names = tests_named(&["tests/it", "src"]);
    let is_test = |text: &str| names.iter().any(|name| name.starts_with(text));
    for test in elsewhere::tests() {
        assert!(is_test(test), "there is no test `{test}`");
    }
    let mut filters = 0;
    for (name, _, document) in documents() {
        for command in document
            .blocks
            .iter()
            .filter(|block| block.language == "sh")
            .flat_map(|b| examples::commands(&b.text))
        {
            let Some(filter) = elsewhere::filter(examples::without_settings(&command)) else { continue };
            let last = filter.trim_end_matches("::").rsplit("::").next().unwrap_or_default();
            assert!(is_test(last), "{name}: `{filter}` selects no test");
            filters += 1;
        }
    }
    assert!(filters > 3, "{filters}");
}

#[test]
fn the_readme_shows_what_quickstart_prints() {
    let readme = Document::parse(&read("README.md"));
    let shown = readme.blocks.iter().find(|block| block.language == "text").expect("what it prints");
    assert_eq!(shown.text.lines().count(), 8);
    let script = read("scripts/quickstart");
    for step in shown.text.lines().filter(|line| !line.starts_with(' ')) {
        assert!(script.contains(&format!("step '{step}'")), "scripts/quickstart does not say `{step}`");
    }
}

#[test]
fn documents_list_the_error_codes_that_there_are() {
    let own = |codes: Vec<u32>| codes.into_iter().filter(|&code| code >= 100).collect::<BTreeSet<_>>();
    let there = own(codes_in_source(&read("src/cni/failure.rs")));
    assert!(there.len() > 5, "the codes were not found: {there:?}");
    assert_eq!(own(codes_in_table(&read("docs/errors.md"))), there);
}

/// True if a help text lists an option as a whole word.
fn has_option(help: &str, option: &str) -> bool {
    help.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == option)
}

fn scripts_of(text: &str) -> BTreeSet<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).unwrap_or(text.len());
        format!("scripts/{}", text.split_at(end).0.trim_end_matches('.'))
    };
    text.split("scripts/").skip(1).map(name).collect()
}

/// The calls of the command line, in blocks of commands and in sentences.
fn command_lines_of(text: &str, document: &Document) -> BTreeSet<String> {
    let in_blocks = text.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let in_sentences = document.code.iter().map(String::as_str);
    let command = |line: &str| line.split(" #").next().unwrap_or_default().trim().to_owned();
    in_blocks.chain(in_sentences).filter(|line| line.starts_with("host-affine ")).map(command).collect()
}

/// The numbers after `Code::Name =>`.
fn codes_in_source(source: &str) -> Vec<u32> {
    let arm = |line: &str| {
        line.trim().strip_prefix("Code::")?.split_once("=> ")?.1.trim_end_matches(',').parse().ok()
    };
    source.lines().filter_map(arm).collect()
}

/// The numbers in the first column of the table of error codes.
fn codes_in_table(text: &str) -> Vec<u32> {
    let chapter = text.split("\n## ").find(|chapter| chapter.starts_with("Error codes")).unwrap_or_default();
    let row = |line: &str| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok();
    chapter.lines().filter_map(row).collect()
}

/// Runs a command with a text on its standard input.
fn feed(command: &mut Command, stdin: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_within_the_tree_only() {
        assert_eq!(within_tree("docs/a.md", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(within_tree("docs/a.md", "b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(within_tree("docs/a.md", "../../b.md"), None);
        assert_eq!(within_tree("README.md", "/etc/b.md"), None);
    }

    #[test]
    fn an_option_is_a_whole_word() {
        let help = "  -o, --output <FORMAT>\n      --dry-run[=<WORD>]  Check";
        assert!(["-o", "--output", "--dry-run"].iter().all(|option| has_option(help, option)));
        assert!(["--dry", "-d", "--out"].iter().all(|option| !has_option(help, option)));
    }

    #[test]
    fn references_to_nowhere_are_found() {
        let text = "See row 12, F7, ../shared/a.md, design.md and whoever. But F2FS, rows, arrow 3 and besides are fine.";
        let found: Vec<_> = unsuitable(text).collect();
        assert_eq!(found, ["row 1", "F7", "../shared", "design.md", "whoever"]);
    }

    #[test]
    fn scripts_commands_and_codes_are_found_in_a_document() {
        let text = "Run `scripts/test`, or scripts/build.\n| 7 | of another table |\n\n## Error codes\n\n\
                    | code | meaning |\n| 101 | no address |\n\n## More\n\n| 8 |\n";
        assert_eq!(scripts_of(text).into_iter().collect::<Vec<_>>(), ["scripts/build", "scripts/test"]);
        let commands = "`host-affine get x -o y`\n`host-affine` is a plugin\n\n\
                        ```sh\nhost-affine ipam show --ip=1   # who\n```\n";
        let found = command_lines_of(commands, &Document::parse(commands));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["host-affine get x -o y", "host-affine ipam show --ip=1"]
        );
        assert_eq!(codes_in_table(text), [101]);
        assert_eq!(codes_in_source("    Code::Store => 100,\n    Code::Store\n  /// 100: a store"), [100]);
    }
}
