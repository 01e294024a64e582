//! The black-box suite of `testdata/conformance` against the built plugin: what a container runtime sees of it.
//!
//! Each case gets a directory tree of its own and a plugin that knows nothing but the variables and the stdin the case
//! gives it, so cases run side by side, save those that kill the plugin. The case format is described in
//! `testdata/conformance/README.md`.
//!
//! Three variables steer the run; none is needed:
//!
//! - `HOST_AFFINE_PLUGIN`: the plugin to run, instead of the binary cargo built for this test.
//! - `HOST_AFFINE_PROFILES`: the profile file, instead of `testdata/conformance/ipam-host-affine.json`.
//! - `HOST_AFFINE_CONFORMANCE_ONLY`: run only the cases whose name contains this text.

mod address;
mod case;
mod expect;
mod input;
mod placeholder;
mod process;
mod sandbox;
mod snapshot;
mod subset;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io, iter, thread};

use case::Case;
use placeholder::Profiles;

use crate::support::etcd::{Server, need_etcd};

/// Why a case, or a step of it, ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    /// A promise was not kept. The sentence says which.
    Fail(String),
    /// The profile file says that the plugin cannot express what the case needs.
    Skip(String),
}

impl From<String> for Stop {
    fn from(sentence: String) -> Self {
        Self::Fail(sentence)
    }
}

#[test]
fn the_plugin_keeps_every_promise_of_the_conformance_suite() {
    let plugin = env::var_os("HOST_AFFINE_PLUGIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_host-affine")), PathBuf::from);
    // Each case runs in its own working directory, where a relative path would lead nowhere.
    let plugin = fs::canonicalize(&plugin)
        .unwrap_or_else(|error| panic!("no plugin to test at `{}`: {error}", plugin.display()));
    let profiles = env::var_os("HOST_AFFINE_PROFILES")
        .map_or_else(|| suite().join("ipam-host-affine.json"), PathBuf::from);
    let profiles = Profiles::read(&profiles);
    let only = env::var("HOST_AFFINE_CONFORMANCE_ONLY").unwrap_or_default();

    let mut cases = case::read_all(&suite().join("cni"));
    cases.retain(|case| case.name.contains(&only));
    assert!(!cases.is_empty(), "no case has `{only}` in its name");

    let verdicts = run_all(&cases, &plugin, &profiles);
    let report = Report::of(&cases, &verdicts);
    // Not `print!`: the lines are wanted when the test passes, too. They start on a line of their own.
    io::stdout().lock().write_all(format!("\n{}", report.text).as_bytes()).expect("stdout is open");
    assert!(report.clean, "the plugin is not conformant; the cases are named above");
}

/// Those cases that are about what is held, each with an etcd to itself instead of a directory.
#[test]
fn the_plugin_keeps_its_promises_about_what_is_held_on_etcd_too() {
    need_etcd!();
    let mut cases = case::read_all(&suite().join("cni"));
    cases.retain(Case::is_of_any_store);
    assert!(cases.len() > 90, "{}", cases.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let server = Server::start();
        let profiles = Profiles::read(&suite().join("ipam-host-affine.json")).on_etcd(&server.url());
        let claim = || cases.get(next.fetch_add(1, Ordering::Relaxed));
        let run = |case: &Case| {
            for prefix in ["/calico/", "/host-affine/"] {
                server.clear(prefix);
            }
            let verdict = sandbox::run(case, crate::support::cni::plugin(), &profiles);
            (case.name.clone(), verdict)
        };
        iter::from_fn(claim).map(run).collect::<Vec<_>>()
    };
    let verdicts: Vec<_> = thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker only returns verdicts"))
            .collect()
    });
    let broken: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.is_err()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(verdicts.len(), cases.len());
}

#[test]
fn the_suite_is_complete_and_no_two_cases_share_a_name() {
    let cases = case::read_all(&suite().join("cni"));
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(cases.len(), 273, "a lost case file would otherwise go unnoticed");
    assert_eq!(names.len(), cases.len());
}

#[test]
fn a_plugin_that_does_nothing_or_always_fails_does_not_get_through() {
    let cases = case::read_all(&suite().join("cni"));
    let profiles = Profiles::read(&suite().join("ipam-host-affine.json"));
    let passed = |plugin: &str| {
        let verdicts = run_all(&cases, Path::new(plugin), &profiles);
        verdicts.iter().filter(|verdict| verdict.is_ok()).count()
    };
    assert_eq!(passed("/bin/false"), 0);
    // To do nothing is right for a DEL of what was never added, and little else.
    assert!(passed("/bin/true") < cases.len() / 10);
}

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/conformance")
}

/// One verdict for each case, in the order of the cases.
fn run_all(cases: &[Case], plugin: &Path, profiles: &Profiles) -> Vec<Result<(), Stop>> {
    let run = |(n, case): (usize, &Case)| (n, sandbox::run(case, plugin, profiles));
    // A kill has to hit a moment of the plugin's run time, so nothing else of ours may take the processor then.
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().enumerate().partition(|(_, case)| case.kills());
    let mut verdicts: Vec<_> = alone.into_iter().map(run).collect();

    // More workers would only make the cases that race many calls against each other starve the rest.
    let workers = thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4));
    let next = AtomicUsize::new(0);
    let work = || {
        let claim = || together.get(next.fetch_add(1, Ordering::Relaxed)).copied();
        iter::from_fn(claim).map(run).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            verdicts.extend(worker.join().expect("a worker only returns verdicts"));
        }
    });
    verdicts.sort_by_key(|(n, _)| *n);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// What is told at the end: a line for each case that did not pass, then the count.
struct Report {
    text: String,
    /// Whether every case passed. One that was skipped did not.
    clean: bool,
}

impl Report {
    fn of(cases: &[Case], verdicts: &[Result<(), Stop>]) -> Self {
        let mut lines = Vec::new();
        let (mut passed, mut failed) = (0, 0);
        for (case, verdict) in cases.iter().zip(verdicts) {
            let beyond = if case.beyond { " [beyond]" } else { "" };
            match verdict {
                Ok(()) => passed += 1,
                Err(Stop::Skip(why)) => lines.push(format!("SKIP {}: {why}", case.name)),
                Err(Stop::Fail(why)) => {
                    failed += 1;
                    lines.push(format!("FAIL {}{beyond}: {}", case.name, clip(why)));
                }
            }
        }
        lines.push(format!("{passed} passed, {failed} failed\n"));
        Self { text: lines.join("\n"), clean: passed == cases.len() }
    }
}

/// One line of bounded length: a result may hold thousands of addresses.
fn clip(sentence: &str) -> String {
    const LENGTH_MAX: usize = 300;
    let line = sentence.replace('\n', " ");
    match line.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

mod tests {
    use super::*;

    fn case(name: &str, beyond: bool) -> Case {
        serde_json::from_value(serde_json::json!({
            "name": name, "group": "g", "why": "w", "beyond": beyond, "steps": []
        }))
        .expect("a case as the files have it")
    }

    #[test]
    fn the_report_names_each_failing_case_and_counts() {
        let cases = [case("good", false), case("bad", true), case("odd", false)];
        let verdicts =
            [Ok(()), Err(Stop::Fail("exit 1\nwant 0".into())), Err(Stop::Skip("no profile".into()))];
        let report = Report::of(&cases, &verdicts);
        assert_eq!(
            report.text,
            "FAIL bad [beyond]: exit 1 want 0\nSKIP odd: no profile\n1 passed, 1 failed\n"
        );
        assert!(!report.clean);
    }

    #[test]
    fn a_skipped_case_is_not_a_clean_run() {
        assert!(!Report::of(&[case("odd", false)], &[Err(Stop::Skip("no profile".into()))]).clean);
        assert!(Report::of(&[case("good", false)], &[Ok(())]).clean);
    }

    #[test]
    fn a_long_sentence_is_cut_between_characters() {
        assert_eq!(clip(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(clip(&"é".repeat(301)), "é".repeat(300) + "...");
    }
}
