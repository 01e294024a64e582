//! Records that were cut short behind everybody's back.

use std::fs;

use super::{Field, exits};
use crate::support::store::write_out;

/// F31, its second half; the first is `plugin::faults` (on a full disk).
#[test]
fn a_record_that_was_cut_short_is_named_by_check_and_its_block_gives_nothing_until_it_is_put_back() {
    let field = Field::new();
    field.pool("p1", "10.70.1.0/27", 27);
    field.add("a1", "n1").succeeded();
    write_out(&field.on("n1"), &field.lab.store());
    let blocks = field.lab.store().join("ipam/blocks");
    let file = fs::read_dir(&blocks).expect("blocks").next().expect("one").expect("an entry").path();
    let whole = fs::read(&file).expect("a block");
    fs::write(&file, "").expect("ours");
    let found = exits(field.cli(&["ipam", "check"]), 1);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(found.stdout.contains(&name), "{found:?}");
    for n in 1..=5 {
        let refusal = field.add(&format!("f{n}"), "n1").refused();
        assert_eq!(refusal.code, 110);
        refusal.says(&["10.70.1.0"]);
    }
    fs::write(&file, whole).expect("ours");
    exits(field.cli(&["ipam", "check"]), 0);
    field.add("f1", "n1").succeeded();
    assert_eq!(field.count().0, 2);
}
