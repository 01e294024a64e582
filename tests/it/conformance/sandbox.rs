//! One case from its first step to its last, in a directory tree of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, io, thread};

use super::Stop;
use super::address::result_ips;
use super::case::{Case, DataDir, Step};
use super::expect;
use super::placeholder::{Context, Profiles, in_text};
use super::process;
use super::snapshot::Snapshot;

/// Runs the case against the plugin. `Err` says why it did not pass.
pub(crate) fn run(case: &Case, plugin: &Path, profiles: &Profiles) -> Result<(), Stop> {
    let tree = tempfile::Builder::new()
        .prefix("cni-conformance-")
        .tempdir()
        .map_err(|e| io_error("the tree", &e))?;
    let root = tree.path();
    let store = lay_out(root, case.datadir).map_err(|error| io_error("the tree", &error))?;
    let context = Context {
        data_dir: store.display().to_string(),
        working_directory: root.join(WORKING_DIRECTORY),
        profiles,
        saved: Mutex::default(),
        fastest: Mutex::default(),
    };
    for (path, text) in &case.files {
        let path = PathBuf::from(in_text(path, &context, 0)?);
        write(&path, text).map_err(|error| io_error(&path.display().to_string(), &error))?;
    }

    let before = Snapshot::of(root, &store).map_err(|error| io_error("the tree", &error))?;
    for (n, step) in case.steps.iter().enumerate() {
        take(step, plugin, &context).map_err(|stop| at_step(n + 1, step, stop))?;
    }
    let after = Snapshot::of(root, &store).map_err(|error| io_error("the tree", &error))?;

    let changes = before.changes(&after);
    if changes.is_empty() {
        return Ok(());
    }
    Err(Stop::Fail(format!("touched files outside the data directory: {changes:?}")))
}

const WORKING_DIRECTORY: &str = "cwd";

/// Makes the tree and returns the place of the store. It lies deep, so that `../../` in a name stays in the tree.
fn lay_out(root: &Path, data_dir: DataDir) -> io::Result<PathBuf> {
    let store = root.join("a/b/c/data");
    fs::create_dir(root.join(WORKING_DIRECTORY))?;
    fs::create_dir_all(root.join("a/b/c"))?;
    match data_dir {
        DataDir::Present => fs::create_dir(&store)?,
        DataDir::File => fs::write(&store, "not a directory\n")?,
        DataDir::Absent => {}
    }
    // What a name with `../` in it would hit first.
    for name in ["x", "etc"] {
        write(&root.join("a").join(name).join("canary"), "canary\n")?;
    }
    Ok(store)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}

fn take(step: &Step, plugin: &Path, context: &Context) -> Result<(), Stop> {
    if let Some(calls) = step.parallel {
        return take_at_once(step, calls, plugin, context);
    }
    for index in 0..step.repeat.unwrap_or(1) {
        let outcome = process::call(plugin, step, context, index)?;
        expect::check(&outcome, step, context, index)?;
    }
    Ok(())
}

fn take_at_once(step: &Step, calls: usize, plugin: &Path, context: &Context) -> Result<(), Stop> {
    let outcomes: Vec<_> = thread::scope(|scope| {
        let calls: Vec<_> = (0..calls)
            .map(|index| scope.spawn(move || process::call(plugin, step, context, index)))
            .collect();
        calls.into_iter().map(|call| call.join().expect("a call does not panic")).collect()
    });
    let mut addresses = Vec::new();
    for (index, outcome) in outcomes.into_iter().collect::<Result<Vec<_>, Stop>>()?.iter().enumerate() {
        if let Some(document) = expect::check(outcome, step, context, index)? {
            addresses.extend(result_ips(&document)?);
        }
    }
    let distinct: BTreeSet<&String> = addresses.iter().collect();
    if step.expect.all_distinct && distinct.len() != addresses.len() {
        return Err(Stop::Fail(format!("an address was handed out twice among {calls} calls at once")));
    }
    Ok(())
}

fn at_step(number: usize, step: &Step, verdict: Stop) -> Stop {
    match verdict {
        Stop::Fail(why) => {
            Stop::Fail(format!("step {number} ({}): {why}", step.command.as_deref().unwrap_or("no command")))
        }
        Stop::Skip(why) => Stop::Skip(why),
    }
}

fn io_error(what: &str, error: &io::Error) -> Stop {
    Stop::Fail(format!("cannot make or read {what}: {error}"))
}

mod tests {
    use serde_json::{Value, json};

    use super::super::placeholder::tests::profiles;
    use super::*;

    /// The verdict on a plugin that prints its stdin: each step says itself what it answers.
    fn echo(steps: &Value) -> Result<(), Stop> {
        verdict("/bin/cat", &json!({"name": "n", "group": "g", "why": "w", "steps": steps}))
    }

    /// The verdict on a plugin that runs its stdin, in the working directory of the case.
    fn shell(script: &str) -> Result<(), Stop> {
        let steps = json!([{"stdin_raw": script, "expect": {"exit": "any"}}]);
        verdict("/bin/sh", &json!({"name": "n", "group": "g", "why": "w", "steps": steps}))
    }

    fn verdict(plugin: &str, case: &Value) -> Result<(), Stop> {
        let case = serde_json::from_value(case.clone()).expect("a case");
        run(&case, Path::new(plugin), &profiles())
    }

    #[track_caller]
    fn fails(verdict: Result<(), Stop>, because: &str) {
        match verdict {
            Err(Stop::Fail(why)) => assert!(why.contains(because), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    fn result(address: &str) -> Value {
        json!({"cniVersion": "1.0.0", "ips": [{"address": address}]})
    }

    #[test]
    fn a_saved_result_is_known_to_later_steps() {
        let first = json!({"command": "ADD", "stdin": result("10.0.0.2/24"), "save": "a"});
        let same = json!({"command": "ADD", "stdin": "@RESULT:a@", "expect": {"ips": ["@IP:a:0@"]}});
        let mut distinct = json!({
            "command": "ADD", "stdin": result("10.0.0.3/24"), "expect": {"distinct_from": ["a"]}
        });
        assert_eq!(echo(&json!([first, same, distinct])), Ok(()));
        distinct["stdin"] = result("10.0.0.2/24");
        fails(echo(&json!([first, same, distinct])), "step 3 (ADD): handed out twice: 10.0.0.2/24");
    }

    #[test]
    fn every_repetition_is_checked_with_its_own_number() {
        let mut step = json!({
            "command": "ADD", "repeat": 3, "stdin": result("10.0.0.1@I@/24"), "expect": {"ips_not": ["10.0.0.13"]}
        });
        assert_eq!(echo(&json!([step])), Ok(()));
        step["repeat"] = json!(4);
        fails(echo(&json!([step])), "10.0.0.13/24 must not be handed out");
    }

    #[test]
    fn calls_at_once_must_not_share_an_address_when_the_case_says_so() {
        let mut step = json!({
            "command": "ADD", "parallel": 4, "stdin": result("10.0.0.1@I@/24"), "expect": {"all_distinct": true}
        });
        assert_eq!(echo(&json!([step])), Ok(()));
        step["stdin"] = result("10.0.0.1/24");
        fails(echo(&json!([step])), "twice among 4 calls at once");
        step["expect"] = json!({});
        assert_eq!(echo(&json!([step])), Ok(()));
    }

    #[test]
    fn a_killed_call_promises_nothing_but_the_next_one_does() {
        let killed = json!({"stdin_raw": "while :; do :; done", "kill_after_fraction": 0.2});
        let steps = json!([killed, {"stdin_raw": "exit 1", "expect": {"error_json": false}}]);
        let case = json!({"name": "n", "group": "g", "why": "w", "steps": steps});
        fails(verdict("/bin/sh", &case), "step 2 (no command): exit 1, want 0");
    }

    #[test]
    fn a_plugin_that_writes_outside_of_its_store_fails() {
        assert_eq!(shell("echo x > ../a/b/c/data/x"), Ok(()));
        for script in
            ["echo x > x", "echo x > ../a/x/new", "echo xx >> ../a/etc/canary", "echo x > ../a/b/c/data2"]
        {
            fails(shell(script), "touched files outside the data directory");
        }
    }

    #[test]
    fn the_place_of_the_store_is_as_the_case_says() {
        for (datadir, test) in [("present", "-d"), ("absent", "! -e"), ("file", "-f")] {
            let script =
                format!("test {test} @DATADIR@ && test \"$(echo *)\" = '*' && read x < ../a/b/c/data.given");
            let case = json!({
                "name": "n", "group": "g", "why": "w", "datadir": datadir, "files": {"@DATADIR@.given": "x\n"},
                "steps": [{"stdin_raw": script}]
            });
            assert_eq!(verdict("/bin/sh", &case), Ok(()), "{datadir}");
        }
    }

    #[test]
    fn a_case_the_plugin_cannot_express_is_skipped() {
        let verdict = echo(&json!([{"stdin": {"ipam": "@IPAM:none@"}}]));
        assert!(matches!(verdict, Err(Stop::Skip(_))), "{verdict:?}");
    }
}
