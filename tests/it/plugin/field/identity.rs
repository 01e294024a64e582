//! One name for a host, chosen once and never guessed twice.

use super::{Field, shows};
use crate::support::cni::Network;

/// A network that does not name its host.
fn unnamed(field: &Field) -> Network {
    let mut network = field.on("");
    network.conf.as_object_mut().expect("an object").remove("nodename");
    network
}

/// F27.
#[test]
fn the_name_in_the_configuration_counts_and_the_kernels_appears_nowhere() {
    let field = Field::new();
    field.pool("p1", "10.69.0.0/27", 29);
    let named = field.on("edge7.rack.example").with_top("log_level", "debug");
    let first = named.add("h1").succeeded();
    assert!(
        first.stderr.contains("edge7.rack.example"),
        "the name and its source are logged: {}",
        first.stderr
    );
    named.call("ADD", "h2").variable("HOSTNAME", "edge7").run().succeeded();
    let view = field.view();
    assert_eq!((view.blocks.len(), view.blocks_of("edge7.rack.example"), view.held.len()), (1, 1, 2));
    shows(&field.cli(&["ipam", "show", "--show-blocks", "-o", "json"]), &["edge7.rack.example"]);
    let kernel = nix::unistd::gethostname().expect("it has one").to_string_lossy().to_lowercase();
    let shown = field.cli(&["get", "ipamblocks", "-o", "json"]).stdout;
    assert!(
        !shown.contains(&format!("\"{kernel}\"")) && !shown.contains(&format!("host:{kernel}\"")),
        "{shown}"
    );
}

/// F28.
#[test]
fn a_name_from_a_file_is_the_same_name_whatever_blanks_surround_it() {
    let field = Field::new();
    field.pool("p1", "10.69.1.0/28", 29);
    for (number, content) in ["kw3 \r\n", "kw3", " kw3\n", "\n\tkw3\n\n"].iter().enumerate() {
        let file = field.file("nodename", content);
        unnamed(&field).with_top("nodename_file", file).add(&format!("nf{number}")).succeeded();
    }
    field.add("named", "kw3").succeeded();
    let view = field.view();
    assert_eq!((view.blocks.len(), view.blocks_of("kw3"), view.held.len()), (1, 1, 5));
    for content in ["", " \n", "two words\n", "a/b", "\u{feff}kw3\n", "kw3\0"] {
        let file = field.file("nodename", content);
        let refusal = unnamed(&field).with_top("nodename_file", file.clone()).add("x").refused();
        assert_eq!(refusal.code, 7, "{content:?}");
        refusal.says(&[&file]);
    }
    assert_eq!(field.count().0, 5);
}
