use serde::Serialize;

use super::section::{Section, Value};
use crate::cni::failure::Failure;
use crate::net::parse_address;

/// What a container asks for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dns {
    /// Addresses of name servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Domains that short names are tried in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Options of the resolver, such as `ndots:2`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Dns {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These settings, and those of `other` where these say nothing.
    #[must_use]
    pub fn or(self, other: Dns) -> Dns {
        let list = |own: Vec<String>, other| if own.is_empty() { other } else { own };
        Dns {
            nameservers: list(self.nameservers, other.nameservers),
            domain: self.domain.or(other.domain),
            search: list(self.search, other.search),
            options: list(self.options, other.options),
        }
    }

    pub(super) fn read(ipam: &Section<'_, '_>) -> Result<Dns, Failure> {
        let Some(dns) = ipam.section("dns")? else {
            return Ok(Dns::default());
        };
        let mut nameservers = Vec::new();
        if let Some(list) = dns.get("nameservers") {
            for server in list.list()? {
                nameservers.push(Value::address(server)?.to_string());
            }
        }
        Ok(Dns {
            nameservers,
            domain: dns.text("domain")?,
            search: dns.texts("search")?,
            options: dns.texts("options")?,
        })
    }
}

/// Reads a `resolv.conf`. Lines that say nothing are passed over, as are name servers that are no plain address:
/// one with a zone (`fe80::1%eth0`) means something on this machine only.
///
/// # Source
/// resolv.conf(5), but `search` lines add up, as host-local has it.
#[must_use]
pub fn parse_resolv_conf(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let keyword = words.next().unwrap_or_default();
        match keyword {
            "nameserver" => {
                dns.nameservers
                    .extend(words.next().and_then(parse_address).map(|address| address.to_string()));
            }
            "domain" => dns.domain = words.next().map(str::to_owned).or(dns.domain),
            "search" => dns.search.extend(words.map(str::to_owned)),
            "options" => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_resolv_conf_says_what_it_says() {
        let text = "# made by hand\n; old comment\nnameserver 10.77.5.53\nnameserver\tfd00:77:5::53\r\n\
                    nameserver fe80::1%eth0\nnameserver\ndomain example.test\n\nsearch example.test lab.test\n\
                    options ndots:2\nsortlist 10.0.0.0\nnonsense";
        let wanted = Dns {
            nameservers: strings(&["10.77.5.53", "fd00:77:5::53"]),
            domain: Some("example.test".into()),
            search: strings(&["example.test", "lab.test"]),
            options: strings(&["ndots:2"]),
        };
        assert_eq!(parse_resolv_conf(text), wanted);
        assert!(parse_resolv_conf("").is_empty());
    }

    #[test]
    fn what_is_not_set_comes_from_the_file() {
        let own = Dns { search: strings(&["own"]), ..Dns::default() };
        let file = parse_resolv_conf("nameserver 10.0.0.1\nsearch file\ndomain d");
        let both = own.or(file);
        assert_eq!((both.nameservers, both.search), (strings(&["10.0.0.1"]), strings(&["own"])));
        assert_eq!(both.domain.as_deref(), Some("d"));
    }
}
