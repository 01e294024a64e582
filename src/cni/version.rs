//! The versions of the specification, and the answer to VERSION.

use serde::Serialize;

use super::env::Verb;
use super::failure::{Code, Failure};
use super::json::{self, Object};

/// A released version of the CNI specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[expect(missing_docs, reason = "each variant is named after the version it is")]
pub enum Version {
    #[serde(rename = "0.1.0")]
    V0_1_0,
    #[serde(rename = "0.2.0")]
    V0_2_0,
    #[serde(rename = "0.3.0")]
    V0_3_0,
    #[serde(rename = "0.3.1")]
    V0_3_1,
    #[serde(rename = "0.4.0")]
    V0_4_0,
    #[serde(rename = "1.0.0")]
    V1_0_0,
    #[serde(rename = "1.1.0")]
    V1_1_0,
}

impl Version {
    /// Every version this plugin speaks, oldest first. Runtimes compare exact strings with this list.
    pub const ALL: [Version; 7] = [
        Version::V0_1_0,
        Version::V0_2_0,
        Version::V0_3_0,
        Version::V0_3_1,
        Version::V0_4_0,
        Version::V1_0_0,
        Version::V1_1_0,
    ];

    /// The newest version.
    pub const LATEST: Version = Version::V1_1_0;

    /// How it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V0_1_0 => "0.1.0",
            Version::V0_2_0 => "0.2.0",
            Version::V0_3_0 => "0.3.0",
            Version::V0_3_1 => "0.3.1",
            Version::V0_4_0 => "0.4.0",
            Version::V1_0_0 => "1.0.0",
            Version::V1_1_0 => "1.1.0",
        }
    }

    /// The version written exactly so. `None`: not one of ours; neither `1.0` nor `v1.0.0` is.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// The version of a network configuration: 0.1.0 where it names none.
    pub(super) fn of_config(config: &Object<'_>) -> Result<Version, Failure> {
        let Some(value) = config.get("cniVersion") else {
            return Ok(Version::V0_1_0);
        };
        let Some(text) = value.string() else {
            let kind = value.kind();
            return Err(Failure::decode(format!(
                "network config: `cniVersion` is {kind}; expected a string"
            )));
        };
        if text.is_empty() {
            return Ok(Version::V0_1_0);
        }
        Version::parse(&text).ok_or_else(|| {
            Failure::new(
                Code::IncompatibleVersion,
                format!("network config: `cniVersion` `{text}` is not supported"),
            )
            .with_details(format!("supported are {}", Self::ALL.map(Version::as_str).join(", ")))
        })
    }

    /// Fails when the specification of this version has no such verb.
    pub fn require(self, verb: Verb) -> Result<(), Failure> {
        let since = verb.since();
        if self >= since {
            return Ok(());
        }
        Err(Failure::new(
            Code::IncompatibleVersion,
            format!("network config: `cniVersion` is {self}, which has no {verb}; expected {since} or newer"),
        ))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to VERSION. Anything may be on standard input, and no input is an error: the caller wants the list.
///
/// # Source
/// CNI 1.1.0, section 2, *VERSION*: `cniVersion` is the one given on input.
#[must_use]
pub fn answer(stdin: &[u8]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        cni_version: Version,
        supported_versions: [Version; 7],
    }
    let asked = json::document(stdin).ok().and_then(json::Raw::object).and_then(|input| {
        let version = input.get("cniVersion")?.string()?;
        Version::parse(&version)
    });
    let answer = Answer { cni_version: asked.unwrap_or(Version::LATEST), supported_versions: Version::ALL };
    // Strings cannot fail to be written.
    serde_json::to_string(&answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_answers_whatever_is_on_standard_input() {
        let list = r#""supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}"#;
        for (stdin, version) in [
            (r#"{"cniVersion":"0.4.0"}"#, "0.4.0"),
            (r#"{"cniVersion":"1.1.0"}"#, "1.1.0"),
            (r#"{"cniVersion":"9.9.9"}"#, "1.1.0"),
            (r#"{"cniVersion":1}"#, "1.1.0"),
            ("{}", "1.1.0"),
            ("", "1.1.0"),
            ("}{ not json", "1.1.0"),
            ("[]", "1.1.0"),
        ] {
            assert_eq!(answer(stdin.as_bytes()), format!(r#"{{"cniVersion":"{version}",{list}"#), "{stdin}");
        }
    }

    #[test]
    fn a_configuration_speaks_exactly_one_released_version() {
        let of = |text: &str| {
            let config = json::document(text.as_bytes()).expect("json").object().expect("object");
            Version::of_config(&config).map_err(|failure| failure.code.number())
        };
        assert_eq!(of("{}"), Ok(Version::V0_1_0));
        assert_eq!(of(r#"{"cniVersion":""}"#), Ok(Version::V0_1_0));
        assert_eq!(of(r#"{"cniVersion":null}"#), Ok(Version::V0_1_0));
        for version in Version::ALL {
            assert_eq!(of(&format!(r#"{{"cniVersion":"{version}"}}"#)), Ok(version));
        }
        for other in ["9.9.9", "0.5.0", "1.0", "v1.0.0", "latest", "1.0.0 "] {
            assert_eq!(of(&format!(r#"{{"cniVersion":"{other}"}}"#)), Err(1), "{other}");
        }
        assert_eq!(of(r#"{"cniVersion":1.0}"#), Err(6));
    }

    #[test]
    fn verbs_exist_since_their_version() {
        for (verb, since) in [
            (Verb::Add, "0.1.0"),
            (Verb::Del, "0.1.0"),
            (Verb::Check, "0.4.0"),
            (Verb::Gc, "1.1.0"),
            (Verb::Status, "1.1.0"),
        ] {
            let since = Version::parse(since).expect("a version");
            for version in Version::ALL {
                assert_eq!(version.require(verb).is_ok(), version >= since, "{verb} {version}");
            }
        }
    }
}
