//! The placeholders of the case files, and what they stand for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;
use std::{fmt, fs};

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::Stop;
use super::address::result_ips;

/// What the steps of one case share. Calls at the same time share it, too.
pub(crate) struct Context<'a> {
    pub(crate) data_dir: String,
    pub(crate) working_directory: PathBuf,
    pub(crate) profiles: &'a Profiles,
    pub(crate) saved: Mutex<BTreeMap<String, Value>>,
    /// The shortest successful call of each command so far.
    pub(crate) fastest: Mutex<BTreeMap<Option<String>, Duration>>,
}

/// The plugin's ipam sections by profile name, in its own dialect. Null: it cannot express that profile.
#[derive(Debug)]
pub(crate) struct Profiles(BTreeMap<String, Value>);

impl Profiles {
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read(file).unwrap_or_else(|error| panic!("cannot read `{}`: {error}", file.display()));
        let sections = serde_json::from_slice(&text);
        let sections =
            sections.unwrap_or_else(|error| panic!("`{}` holds no profiles: {error}", file.display()));
        Self::new(sections)
    }

    /// A lone ipam section, known by its `type`, is the default profile.
    pub(crate) fn new(sections: BTreeMap<String, Value>) -> Self {
        if sections.get("type").is_some_and(Value::is_string) {
            let section = Value::Object(sections.into_iter().collect());
            return Self(BTreeMap::from([("default".to_owned(), section)]));
        }
        Self(sections)
    }

    /// The same, with an etcd instead of a directory.
    pub(crate) fn on_etcd(mut self, url: &str) -> Self {
        for section in self.0.values_mut().filter_map(Value::as_object_mut) {
            section.remove("dataDir");
            section.insert("datastore".to_owned(), json!({ "type": "etcdv3", "endpoints": [url] }));
        }
        self
    }

    fn section(&self, profile: &str) -> Result<&Value, Stop> {
        match self.0.get(profile) {
            None => Err(Stop::Fail(format!("the profile file has no profile `{profile}`"))),
            Some(Value::Null) => Err(Stop::Skip(format!("profile `{profile}` is null in the profile file"))),
            Some(section) => Ok(section),
        }
    }
}

/// The value with every placeholder replaced. `index` is the number of this call among its repetitions.
pub(crate) fn in_value(value: &Value, context: &Context, index: usize) -> Result<Value, Stop> {
    Ok(match value {
        Value::Object(members) => {
            let replaced = members
                .iter()
                .map(|(key, value)| Ok((in_text(key, context, index)?, in_value(value, context, index)?)));
            Value::Object(replaced.collect::<Result<_, Stop>>()?)
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| in_value(item, context, index)).collect::<Result<_, _>>()?)
        }
        Value::String(text) => in_whole_text(text, context, index)?,
        other => other.clone(),
    })
}

/// A text that is a placeholder as a whole may stand for any JSON value.
fn in_whole_text(text: &str, context: &Context, index: usize) -> Result<Value, Stop> {
    static IPAM: LazyLock<Regex> = LazyLock::new(|| pattern("^@IPAM(?::([A-Za-z0-9_]+))?@$"));
    static RESULT: LazyLock<Regex> = LazyLock::new(|| pattern("^@RESULT:([A-Za-z0-9_]+)@$"));
    if let Some(found) = IPAM.captures(text) {
        let profile = found.get(1).map_or("default", |name| name.as_str());
        return in_value(context.profiles.section(profile)?, context, index);
    }
    if let Some(found) = RESULT.captures(text) {
        return context.saved_result(&found[1]);
    }
    match repeated(text) {
        Some(text) => Ok(Value::String(text)),
        None => in_text(text, context, index).map(Value::String),
    }
}

/// The text with every placeholder inside of it replaced.
pub(crate) fn in_text(text: &str, context: &Context, index: usize) -> Result<String, Stop> {
    static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern("@(IP|ADDR):([A-Za-z0-9_]+):([0-9]+)@"));
    let text = text.replace("@DATADIR@", &context.data_dir).replace("@I@", &index.to_string());
    let mut error = None;
    let replaced = ADDRESS.replace_all(&text, |found: &Captures| {
        context.saved_address(found).unwrap_or_else(|stop| {
            error.get_or_insert(stop);
            String::new()
        })
    });
    match error {
        Some(stop) => Err(stop),
        None => Ok(Cow::into_owned(replaced)),
    }
}

/// What `@REPEAT:n:text@` stands for.
pub(crate) fn repeated(text: &str) -> Option<String> {
    static REPEAT: LazyLock<Regex> = LazyLock::new(|| pattern("(?s)^@REPEAT:([0-9]+):(.*)@$"));
    let found = REPEAT.captures(text)?;
    Some(found[2].repeat(found[1].parse().ok()?))
}

impl Context<'_> {
    pub(crate) fn saved_result(&self, name: &str) -> Result<Value, Stop> {
        let saved = self.saved.lock().expect("no call panics while it holds this");
        saved
            .get(name)
            .cloned()
            .ok_or_else(|| Stop::Fail(format!("no earlier step saved a result as `{name}`")))
    }

    fn saved_address(&self, found: &Captures) -> Result<String, Stop> {
        let addresses = result_ips(&self.saved_result(&found[2])?)?;
        let wanted = found[3].parse().ok().and_then(|n: usize| addresses.get(n));
        let address = wanted.ok_or_else(|| {
            Stop::Fail(format!("result `{}` has no address number {}: {addresses:?}", &found[2], &found[3]))
        })?;
        match &found[1] {
            "IP" => Ok(address.clone()),
            _ => Ok(address.split('/').next().unwrap_or_default().to_owned()),
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file is a regular expression")
}

pub(crate) mod tests {

    use super::*;

    pub(crate) fn profiles() -> Profiles {
        let sections =
            json!({"default": {"type": "t", "dataDir": "@DATADIR@"}, "tiny": {"type": "s"}, "none": null});
        Profiles::new(serde_json::from_value(sections).expect("an object"))
    }

    pub(crate) fn context(profiles: &Profiles) -> Context<'_> {
        let saved = json!({"ips": [{"address": "10.0.0.2/24"}, {"address": "fd00::2/64"}]});
        Context {
            data_dir: "/store".to_owned(),
            working_directory: PathBuf::from("/"),
            profiles,
            saved: Mutex::new(BTreeMap::from([("a".to_owned(), saved)])),
            fastest: Mutex::default(),
        }
    }

    fn replaced(value: &Value) -> Result<Value, Stop> {
        let profiles = profiles();
        in_value(value, &context(&profiles), 7)
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        let value = json!({
            "ipam": "@IPAM@", "k-@I@": ["@IPAM:tiny@", "@DATADIR@/x"], "ip": "@IP:a:0@ @ADDR:a:1@",
            "prevResult": "@RESULT:a@", "long": "@REPEAT:3:ab@", "plain": 1
        });
        let expected = json!({
            "ipam": {"type": "t", "dataDir": "/store"}, "k-7": [{"type": "s"}, "/store/x"],
            "ip": "10.0.0.2/24 fd00::2",
            "prevResult": {"ips": [{"address": "10.0.0.2/24"}, {"address": "fd00::2/64"}]},
            "long": "ababab", "plain": 1
        });
        assert_eq!(replaced(&value), Ok(expected));
    }

    #[test]
    fn a_placeholder_of_something_unknown_fails_the_case() {
        for text in ["@IPAM:unheard_of@", "@RESULT:b@", "@IP:b:0@", "@ADDR:a:2@"] {
            assert!(matches!(replaced(&json!(text)), Err(Stop::Fail(_))), "{text}");
        }
    }

    #[test]
    fn a_profile_the_plugin_cannot_express_skips_the_case() {
        assert!(matches!(replaced(&json!({"ipam": "@IPAM:none@"})), Err(Stop::Skip(_))));
    }

    #[test]
    fn a_lone_section_is_the_default_profile() {
        let section = json!({"type": "t", "subnet": "10.0.0.0/24"});
        let profiles = Profiles::new(serde_json::from_value(section.clone()).expect("an object"));
        assert_eq!(in_value(&json!("@IPAM@"), &context(&profiles), 0), Ok(section));
    }
}
