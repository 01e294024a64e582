//! `completion`: what a shell needs to complete verbs and options.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::super::Answer;
use super::super::args::{Args, Completion};
use super::super::error::Error;
use super::super::kinds::Kind;

/// Verbs that are followed by a kind.
const TAKE_KINDS: [&str; 5] = ["get", "describe", "explain", "patch", "delete"];

/// Serves it.
pub(in crate::cli) fn run(args: &Completion) -> Result<Answer, Error> {
    let command = Args::command();
    let mut places = Vec::new();
    walk(&command, &[], &options(&command), &mut places);
    // The longest path that matches counts, and shells take the first.
    places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    let text = match args.shell.as_str() {
        "bash" => bash(&places),
        "zsh" => {
            format!("#compdef host-affine\nautoload -U +X bashcompinit && bashcompinit\n{}", bash(&places))
        }
        "fish" => fish(&places),
        other => {
            return Err(Error::Argument {
                what: "the shell".into(),
                found: other.to_owned(),
                expected: "`bash`, `zsh` or `fish`".into(),
            });
        }
    };
    Ok(Answer::data(text))
}

/// A path of verbs, and the words that may follow it.
type Place = (Vec<String>, Vec<String>);

fn walk(command: &Command, path: &[String], global: &[String], places: &mut Vec<Place>) {
    let mut words: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    if path.len() == 1 && TAKE_KINDS.iter().any(|verb| path.contains(&(*verb).to_owned())) {
        words.extend(Kind::ALL.map(Kind::word));
    }
    words.extend(options(command));
    words.extend(global.iter().cloned());
    words.sort();
    words.dedup();
    places.push((path.to_vec(), words));
    for verb in command.get_subcommands() {
        let path: Vec<String> = path.iter().cloned().chain([verb.get_name().to_owned()]).collect();
        walk(verb, &path, global, places);
    }
}

fn options(command: &Command) -> Vec<String> {
    let longs = command.get_arguments().filter_map(|argument| argument.get_long());
    longs.map(|long| format!("--{long}")).collect()
}

fn bash(places: &[Place]) -> String {
    let mut text = String::from(
        "_host_affine() {\n  local cur=${COMP_WORDS[COMP_CWORD]} path=' ' word words\n  \
         for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    \
         case $word in -*) ;; *) path+=\"$word \" ;; esac\n  done\n  case $path in\n",
    );
    for (path, words) in places {
        let pattern = if path.is_empty() { "*".to_owned() } else { format!("*' {} '*", path.join(" ")) };
        let _ = writeln!(text, "    {pattern}) words='{}' ;;", words.join(" "));
    }
    text.push_str(
        "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n\
         complete -o default -F _host_affine host-affine\n",
    );
    text
}

fn fish(places: &[Place]) -> String {
    let mut text = String::new();
    for (path, words) in places {
        let seen: Vec<_> = path.iter().map(|verb| format!("__fish_seen_subcommand_from {verb}")).collect();
        let condition =
            if seen.is_empty() { "__fish_use_subcommand".to_owned() } else { seen.join("; and ") };
        let _ = writeln!(text, "complete -c host-affine -f -n '{condition}' -a '{}'", words.join(" "));
    }
    text
}
