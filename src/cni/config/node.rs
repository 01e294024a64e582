use std::path::{Path, PathBuf};

use super::section::Section;
use crate::cni::failure::Failure;

/// Where Calico's node agent writes the host's name.
pub const NODENAME_FILE: &str = "/var/lib/calico/nodename";

/// Where the host's name in the store comes from. Order: `nodename`, the file, `hostname`, the kernel's host name in
/// lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConf {
    /// Already checked.
    pub nodename: Option<String>,
    /// A file that holds the name. `None`: [`NODENAME_FILE`], if there is one.
    pub nodename_file: Option<PathBuf>,
    /// Whether a configured file may be missing. Calico's main plugin asks; an IPAM plugin goes on to the next source.
    pub nodename_file_optional: bool,
    /// Calico's old key, already checked.
    pub hostname: Option<String>,
}

impl NodeConf {
    pub(super) fn read(root: &Section<'_, '_>, ipam: Option<&Section<'_, '_>>) -> Result<NodeConf, Failure> {
        let mut node = NodeConf::default();
        // Our own section is asked last, so that it counts.
        for section in [Some(root), ipam].into_iter().flatten() {
            node.nodename = name(section, "nodename")?.or(node.nodename);
            node.nodename_file = section.text("nodename_file")?.map(PathBuf::from).or(node.nodename_file);
            // Nothing hangs on it here, so nothing fails for it.
            node.nodename_file_optional |= matches!(section.bool("nodename_file_optional"), Ok(Some(true)));
        }
        node.hostname = name(root, "hostname")?;
        Ok(node)
    }
}

/// The host's name in the text of a node-name file: white space around it is not part of it.
///
/// # Errors
/// Code 7, naming the file: it is empty, or holds what cannot be a name.
pub fn node_name_from_file(text: &str, file: &Path) -> Result<String, Failure> {
    let refuse = |found: String| {
        Failure::config(format!("`nodename_file` {} {found}; expected a host name", file.display()))
    };
    match text.trim() {
        "" => Err(refuse("is empty".into())),
        name => parse_node_name(name).ok_or_else(|| {
            let start: String = name.chars().take(80).collect();
            refuse(format!("holds {start:?}"))
        }),
    }
}

/// A text as the name of a host, white space around it taken away. `None`: it cannot be one.
#[must_use]
pub fn parse_node_name(text: &str) -> Option<String> {
    let name = text.trim();
    (name.len() <= 253 && crate::cni::env::is_identifier(name)).then(|| name.to_owned())
}

fn name(section: &Section<'_, '_>, key: &str) -> Result<Option<String>, Failure> {
    let Some(value) = section.get(key) else {
        return Ok(None);
    };
    let text = value.string()?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    parse_node_name(&text).map(Some).ok_or_else(|| value.expected("a host name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_exactly_the_name_in_it() {
        let file = Path::new("/etc/nodename");
        for text in ["kw3", "kw3 \r\n", "\n\tkw3\n\n"] {
            assert_eq!(node_name_from_file(text, file).expect(text), "kw3");
        }
        for text in ["", " \r\n", "a b", "a\nb", "a/b", "..", "é"] {
            let failure = node_name_from_file(text, file).expect_err(text);
            assert_eq!(failure.code.number(), 7);
            assert!(failure.msg.contains("/etc/nodename"), "{}", failure.msg);
        }
        assert_eq!(parse_node_name(&"a".repeat(254)), None);
        assert_eq!(parse_node_name("edge7.rack_1.example").as_deref(), Some("edge7.rack_1.example"));
    }
}
