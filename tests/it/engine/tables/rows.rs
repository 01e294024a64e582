//! Which of the reference engine's behaviours is tested where.

use std::collections::BTreeSet;

/// What becomes of a row.
enum Place {
    /// It is tested in that module of the tables, by a test whose comment names the row.
    Table(&'static str),
    /// It is tested elsewhere.
    Elsewhere(&'static str),
    /// It does not concern this engine.
    Not(&'static str),
}

use Place::{Elsewhere, Not, Table};

const WINDOWS: Place = Not("only Windows keeps addresses of a block back for its host");
const KUBERNETES: Place = Not("only a Kubernetes store deletes softly or has UIDs");
const NO_USE: Place = Not("this engine assigns to workloads only");
const NO_LIMIT: Place = Not("a request has no limit of its own beside `maxBlocksPerHost`");
const NO_CLAIM: Place = Not("blocks are claimed where an address is needed, not by hand");

/// Every row of the table, in order.
const ROWS: [(usize, Place); 80] = [
    (1, Table("release")),
    (2, Table("by_address")),
    (3, Table("by_address")),
    (4, Table("by_address")),
    (5, Table("by_address")),
    (6, Table("by_address")),
    (7, Table("by_address")),
    (8, Table("release")),
    (9, Table("release")),
    (10, Table("by_address")),
    (11, Table("release")),
    (12, Table("by_address")),
    (13, Table("by_address")),
    (14, Table("release")),
    (15, Table("counted")),
    (16, Table("pools")),
    (17, Table("pools")),
    (18, Table("pools")),
    (19, Table("release")),
    (20, Table("release")),
    (21, Table("pools")),
    (22, NO_USE),
    (23, Table("pools")),
    (24, Table("pools")),
    (25, Table("pools")),
    (26, Table("limits")),
    (27, Table("limits")),
    (28, Table("limits")),
    (29, NO_LIMIT),
    (30, Table("limits")),
    (31, Table("limits")),
    (32, Table("limits")),
    (33, Table("limits")),
    (34, Table("limits")),
    (35, Table("pools")),
    (36, Table("pools")),
    (37, Table("pools")),
    (38, Table("pools")),
    (39, Table("pools")),
    (40, Table("pools")),
    (41, Table("reservations")),
    (42, WINDOWS),
    (43, Table("reservations")),
    (44, WINDOWS),
    (45, WINDOWS),
    (46, WINDOWS),
    (47, WINDOWS),
    (48, Table("pools")),
    (49, Table("pools")),
    (50, Table("release")),
    (51, Table("release")),
    (52, Table("limits")),
    (53, Table("limits")),
    (54, Elsewhere("verbs/shared.rs")),
    (55, Elsewhere("schedules.rs: thirty-two hosts race for sixteen blocks")),
    (56, NO_CLAIM),
    (57, Table("field")),
    (58, Elsewhere("schedules.rs: a block is given up while its host claims it")),
    (59, Elsewhere("schedules.rs: a block is given up while its host claims it")),
    (60, Elsewhere("schedules.rs: a host's blocks are given up while it assigns")),
    (61, Table("limits")),
    (62, Table("counted")),
    (63, Elsewhere("verbs/affinities.rs")),
    (64, Elsewhere("verbs/affinities.rs")),
    (65, Table("affinities")),
    (66, Not("the type of an affinity is in its key")),
    (67, NO_CLAIM),
    (68, NO_CLAIM),
    (69, Table("affinities")),
    (70, Table("pools")),
    (71, KUBERNETES),
    (72, KUBERNETES),
    (73, Table("reservations")),
    (74, Table("reservations")),
    (75, NO_CLAIM),
    (76, WINDOWS),
    (77, Elsewhere("verbs/owners.rs")),
    (78, Table("pools")),
    (79, Table("pools")),
    (80, Table("field")),
];

const MODULES: [(&str, &str); 8] = [
    ("affinities", include_str!("affinities.rs")),
    ("by_address", include_str!("by_address.rs")),
    ("counted", include_str!("counted.rs")),
    ("field", include_str!("field.rs")),
    ("limits", include_str!("limits.rs")),
    ("pools", include_str!("pools.rs")),
    ("release", include_str!("release.rs")),
    ("reservations", include_str!("reservations.rs")),
];

/// The rows that the comments of a module name.
fn named_in(text: &str) -> BTreeSet<usize> {
    let comments = text.lines().filter_map(|line| line.strip_prefix("/// Row"));
    let lists =
        comments.map(|rest| rest.trim_start_matches('s').split([':', ';', '.']).next().unwrap_or_default());
    lists.flat_map(|list| list.split(',').filter_map(|number| number.trim().parse().ok())).collect()
}

#[test]
fn every_row_is_tested_where_the_list_says_or_does_not_apply() {
    for (number, (row, place)) in (1..).zip(&ROWS) {
        assert_eq!(number, *row);
        let named: Vec<&str> =
            MODULES.iter().filter(|(_, text)| named_in(text).contains(row)).map(|(name, _)| *name).collect();
        match place {
            Table(module) => {
                assert!(named.contains(module), "row {row} is said to be in {module}: {named:?}");
            }
            Elsewhere(reason) | Not(reason) => {
                assert!(!reason.is_empty() && named.is_empty(), "row {row}: {named:?}");
            }
        }
    }
}
