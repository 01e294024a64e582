//! Cleaning up never frees what is alive.

use serde_json::{Value, json};

use super::{Field, exits, shows};

fn checked_and_released(field: &Field, alive: &str, code: i32) -> (String, String) {
    let report = field.lab.path().join("r.json").display().to_string();
    let check = ["ipam", "check", "--show-problem-ips", "--inventory", alive, "-o", report.as_str()];
    let found = exits(field.cli(&check), code).stdout;
    let released = field.cli(&["ipam", "release", "--from-report", &report]).stdout;
    (found, released)
}

/// F08.
#[test]
fn an_address_that_is_alive_in_another_spelling_is_neither_reported_nor_released() {
    let field = Field::new();
    field.pool("p6", "fd63:a::/120", 122);
    field.pool("p4", "10.63.0.0/28", 28);
    let both = field.add_both("c1", "n1").addresses();
    let v6 = both.iter().find_map(|a| if let std::net::IpAddr::V6(v6) = a { Some(*v6) } else { None });
    let groups = v6.expect("one of each").segments();
    let long: Vec<String> = groups.iter().map(|group| format!("{group:04X}")).collect();
    let v4 = both.iter().find(|a| a.is_ipv4()).expect("one of each").to_string();
    for spelling in [long.join(":"), format!("{}/128", long.join(":")), long.join(":").to_lowercase()] {
        let alive = field.inventory(&json!([{ "pod": "c1", "ips": [spelling, v4] }]));
        let (found, released) = checked_and_released(&field, &alive, 0);
        assert!(found.ends_with("found 0 problems.\n"), "{found}");
        assert!(!released.contains("Released fd63"), "{released}");
    }
    // A status that lists one family only: the container's ID alone says that it is alive.
    let alive = field.inventory(&json!([{ "containerID": "c1", "ips": [v4] }]));
    checked_and_released(&field, &alive, 0);
    assert_eq!(field.count().0, 2);
}

/// F09: a report that was true when it was written.
#[test]
fn a_report_frees_nothing_that_has_changed_hands_since_not_even_by_force() {
    let field = Field::new();
    field.pool("p1", "10.63.1.0/31", 31);
    field.add("dead1", "n1").succeeded();
    field.add("full", "n1").succeeded();
    let alive = field.inventory(&json!([{ "containerID": "full" }]));
    let report = field.lab.path().join("r.json").display().to_string();
    exits(field.cli(&["ipam", "check", "--inventory", &alive, "-o", &report]), 1);
    let listed: Value =
        serde_json::from_str(&std::fs::read_to_string(&report).expect("a report")).expect("JSON");
    assert!(listed["problems"].to_string().contains("fieldnet.dead1"), "{listed}");
    field.del("dead1", "n1");
    let fresh = field.add("fresh", "n1").address().to_string();
    let released = field.cli(&["ipam", "release", "--from-report", &report, "--force"]);
    shows(&released, &["Skipped", &fresh, "1 skipped"]);
    shows(&exits(field.cli(&["ipam", "show", "--ip", &fresh]), 0), &["fieldnet.fresh"]);
    // Not even when the same container comes back to the same address.
    field.del("fresh", "n1");
    field.add("dead1", "n1").succeeded();
    field.cli(&["ipam", "release", "--from-report", &report, "--force"]);
    assert_eq!(field.count().0, 2);
}
