//! Where things stand in the store's directory, and how names from outside become names of files.

use crate::api::Affinity;
use crate::datastore::Key;
use crate::net::Cidr;

/// The directory of blocks.
pub(super) const BLOCKS: &str = "ipam/blocks";
/// The directory of the owners' directories of affinities.
pub(super) const AFFINITIES: &str = "ipam/affinities";
/// The directory of the owners' directories of blocks with a free address.
pub(super) const ROOM: &str = "ipam/room";
/// The directory of imports.
pub(super) const IMPORTS: &str = "ipam/imports";
/// The directory of networks carved out of pools.
pub(super) const CARVED: &str = "ipam/carved";
/// The directory of what only `ipam.miloapis.com` knows of pools.
pub(super) const POOL_EXTRAS: &str = "ipam.miloapis.com/ippools";
/// The directory of the projects' directories of allocations.
pub(super) const ALLOCATIONS: &str = "ipam.miloapis.com/ipallocations";
/// The directory of the projects' directories of claims.
pub(super) const CLAIMS: &str = "ipam.miloapis.com/ipclaims";
/// The directory of virtual machines.
pub(super) const MACHINES: &str = "ipam/machines";
/// The directory that leads from containers to their virtual machines.
pub(super) const MACHINES_OF: &str = "ipam/machines-of";
/// The directory of nodes.
pub(super) const NODES: &str = "projectcalico.org/nodes";
/// The directory of pools.
pub(super) const POOLS: &str = "projectcalico.org/ippools";
/// The directory of reservations.
pub(super) const RESERVATIONS: &str = "projectcalico.org/ipreservations";
/// The directory of the one configuration.
pub(super) const CONFIGURATIONS: &str = "projectcalico.org/ipamconfigurations";
/// The copy of what every call needs.
pub(super) const STATE: &str = "state";
/// The table from handles to blocks.
pub(super) const INDEX: &str = "index";
/// The journal.
pub(super) const JOURNAL: &str = "journal";
/// The version of the store, for people.
pub(super) const FORMAT: &str = "format";
/// How temporary files begin. They stand in the store's directory.
pub(super) const TEMPORARY: &str = ".host-affine-tmp-";

/// What is never there without a journal: beside these, a missing journal is a lost one.
pub(super) const WITH_JOURNAL: [&str; 6] =
    [FORMAT, STATE, INDEX, "ipam", "projectcalico.org", "ipam.miloapis.com"];

/// The longest name that is kept as it is, in bytes. File systems take 255; `.json` and more must fit behind it.
const NAME_BYTES_MAX: usize = 200;

/// The file of an object. Handles have none: they are found through the index.
pub(super) fn path(key: &Key) -> Option<String> {
    Some(match key {
        Key::Configuration => json(CONFIGURATIONS, "default"),
        Key::Pool(name) => json(POOLS, name),
        Key::Reservation(name) => json(RESERVATIONS, name),
        Key::Node(name) => json(NODES, name.as_str()),
        Key::Import(network) => json(IMPORTS, network),
        Key::Block(cidr) => block_path(*cidr),
        Key::Carved(cidr) => format!("{CARVED}/{}.json", stem(*cidr)),
        Key::PoolExtras(name) => json(POOL_EXTRAS, name),
        Key::Allocation(name) => json(&format!("{ALLOCATIONS}/{}", escape(&name.project)), &name.name),
        Key::Claim(name) => json(&format!("{CLAIMS}/{}", escape(&name.project)), &name.name),
        Key::Machine(id) => json(MACHINES, id.as_str()),
        Key::MachinesOf(id) => json(MACHINES_OF, id.as_str()),
        Key::Affinity(owner, cidr) => format!("{}/{}.json", affinities_of(owner), stem(*cidr)),
        Key::Handle(_) => return None,
    })
}

fn json(folder: &str, name: &str) -> String {
    format!("{folder}/{}.json", escape(name))
}

/// The file of a block.
pub(super) fn block_path(cidr: Cidr) -> String {
    format!("{BLOCKS}/{}.json", stem(cidr))
}

/// The block that a name in [`BLOCKS`] or in an owner's directory of affinities stands for; `None`: not one of ours.
pub(super) fn cidr_of_file(name: &str) -> Option<Cidr> {
    cidr_of_stem(name.strip_suffix(".json")?)
}

/// The directory of an owner's affinities.
pub(super) fn affinities_of(owner: &Affinity) -> String {
    format!("{AFFINITIES}/{}", escape(&owner.to_string()))
}

/// The directory of an owner's blocks with room. No owner is called `_`: theirs begin with their kind.
pub(super) fn room_of(owner: Option<&Affinity>) -> String {
    format!("{ROOM}/{}", owner.map_or_else(|| "_".to_owned(), |owner| escape(&owner.to_string())))
}

/// A range as the name of a file: `10.88.3.64-26`.
pub(super) fn stem(cidr: Cidr) -> String {
    cidr.to_string().replace('/', "-")
}

/// The range that a name stands for; `None`: not written by us.
pub(super) fn cidr_of_stem(name: &str) -> Option<Cidr> {
    let (address, prefix) = name.rsplit_once('-')?;
    let cidr: Cidr = format!("{address}/{prefix}").parse().ok()?;
    (stem(cidr) == name).then_some(cidr)
}

/// Turns any text into one component of a path, different texts into different ones.
///
/// Letters, digits, `.`, `_` and `-` stay, but for a dot at the start; every other byte becomes `%XX`. What gets longer
/// than a file's name may be is cut, and two hashes of the whole follow behind a `~`, which stands nowhere else.
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for (place, byte) in name.bytes().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(char::from(byte)),
            b'.' if place > 0 => escaped.push('.'),
            _ => {
                escaped.push('%');
                escaped.push(hex_digit(byte >> 4));
                escaped.push(hex_digit(byte & 15));
            }
        }
    }
    if name.is_empty() {
        // Nothing else becomes a lone `%`.
        escaped.push('%');
    }
    if escaped.len() > NAME_BYTES_MAX {
        escaped.truncate(NAME_BYTES_MAX - 33);
        let (one, other) = (fnv1a(name.as_bytes()), mixed(name.as_bytes()));
        return format!("{escaped}~{one:016x}{other:016x}");
    }
    escaped
}

fn hex_digit(value: u8) -> char {
    char::from(match value {
        0..10 => b'0' + value,
        _ => b'A' + value - 10,
    })
}

/// The 64-bit FNV-1a hash.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_from(0xcbf2_9ce4_8422_2325, bytes)
}

/// Goes on with a 64-bit FNV-1a hash.
pub(super) fn fnv1a_from(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A hash that has nothing in common with FNV: bytes are added and stirred by rotation and another odd factor.
fn mixed(bytes: &[u8]) -> u64 {
    let stirred = bytes.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, &byte| {
        hash.wrapping_add(u64::from(byte) + 1).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    });
    stirred ^ (stirred >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_leaves_its_directory_or_meets_another() {
        let long = "x".repeat(201);
        let longer = "x".repeat(300);
        let dots = format!("{}.", "ü".repeat(80));
        let names = [
            "",
            "%",
            "%25",
            ".",
            "..",
            "../../etc/passwd",
            "/",
            "a/b",
            "a%2Fb",
            "a b",
            "a\0b",
            "A",
            "a",
            "a.",
            "a-",
            "a_",
            "a~",
            "a:",
            "_",
            "host:a",
            "host%3Aa",
            "ä",
            "a\u{308}",
            &long,
            &longer,
            &dots,
        ];
        let mut seen = BTreeSet::new();
        for name in names {
            let escaped = escape(name);
            assert!(!escaped.is_empty() && escaped.len() <= NAME_BYTES_MAX, "{name:?} became {escaped:?}");
            assert!(
                !escaped.starts_with('.') && !escaped.contains(['/', '\0', ' ']),
                "{name:?} became {escaped:?}"
            );
            assert!(seen.insert(escaped), "{name:?} met another");
        }
    }

    #[test]
    fn long_names_that_share_their_beginning_stay_apart() {
        let names: BTreeSet<String> = (0..2000).map(|n| escape(&format!("{}{n}", "x".repeat(250)))).collect();
        assert_eq!(names.len(), 2000);
    }

    #[test]
    fn a_range_comes_back_from_its_file() {
        for text in ["10.88.3.64/26", "fd00::/122", "::/0", "0.0.0.0/0"] {
            let cidr: Cidr = text.parse().expect(text);
            assert_eq!(cidr_of_stem(&stem(cidr)), Some(cidr));
        }
        for foreign in ["", "10.88.3.64", "10.88.3.65-26", "010.0.0.0-8", "FD00::-122", "10.0.0.0-8.json"] {
            assert_eq!(cidr_of_stem(foreign), None, "{foreign}");
        }
    }
}
