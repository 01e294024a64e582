//! What must hold after a call of the plugin: what every CNI plugin owes, and what the step expects besides.

use std::str;
use std::sync::LazyLock;
use std::time::Duration;

use ipnet::IpNet;
use regex::bytes::Regex;
use serde_json::Value;

use super::Stop;
use super::address::{Interface, result_gateways, result_ips, same_address};
use super::case::{Exit, ExitWord, Expect, Step};
use super::input::json_text;
use super::placeholder::{Context, in_text, in_value};
use super::process::Outcome;
use super::subset;

/// The document the plugin printed, if it printed one, after everything was found as it must be.
///
/// A result that `step` wants saved is saved. A call that was killed is not looked at.
pub(crate) fn check(
    outcome: &Outcome,
    step: &Step,
    context: &Context,
    index: usize,
) -> Result<Option<Value>, Stop> {
    if outcome.killed {
        return Ok(None);
    }
    let answer = Answer::read(outcome)?;
    answer.check_exit(&step.expect)?;
    answer.check_owed(step)?;
    answer.check_error(&step.expect)?;
    answer.check_document(&step.expect, context, index)?;
    answer.check_addresses(&step.expect, context, index)?;
    if let Some(limit) = step.expect.max_seconds.map(Duration::from_secs_f64)
        && outcome.elapsed > limit
    {
        return Err(Stop::Fail(format!("took {:.1?}, at most {limit:?} allowed", outcome.elapsed)));
    }
    if let Some(name) = &step.save {
        let name = in_text(name, context, index)?;
        let document = answer.document.clone().unwrap_or(Value::Null);
        context.saved.lock().expect("no call panics while it holds this").insert(name, document);
    }
    Ok(answer.document)
}

/// What a plugin that ended by itself said.
struct Answer<'a> {
    exit: i32,
    /// Without the white space around it.
    stdout: &'a [u8],
    stderr: &'a [u8],
    /// What stdout says. `None` when it is empty.
    document: Option<Value>,
}

impl<'a> Answer<'a> {
    fn read(outcome: &'a Outcome) -> Result<Self, String> {
        static PANIC: LazyLock<Regex> = LazyLock::new(|| {
            let traces = "panicked at|^panic: |^goroutine [0-9]|SIGSEGV|stack overflow|AddressSanitizer";
            Regex::new(&format!("(?m){traces}")).expect("a regular expression")
        });
        let exit = outcome.exit().map_err(|signal| format!("died of signal {signal}"))?;
        if let Some(stream) = [&outcome.stderr, &outcome.stdout].into_iter().find(|text| PANIC.is_match(text))
        {
            return Err(format!("panicked: {}", excerpt(stream)));
        }
        let stdout = outcome.stdout.trim_ascii();
        let document = match stdout {
            b"" => None,
            text => Some(serde_json::from_slice(text).map_err(|error| {
                format!("stdout is not exactly one JSON document (exit {exit}): {error}: {}", excerpt(text))
            })?),
        };
        Ok(Self { exit, stdout, stderr: &outcome.stderr, document })
    }

    fn check_exit(&self, expect: &Expect) -> Result<(), String> {
        let Self { exit, .. } = self;
        let (stdout, stderr) = (excerpt(self.stdout), excerpt(self.stderr));
        match expect.exit {
            Exit::Word(ExitWord::Nonzero) if *exit == 0 => {
                Err(format!("exit 0, want an error; stdout {stdout}"))
            }
            Exit::Status(wanted) if *exit != wanted => {
                Err(format!("exit {exit}, want {wanted}; stdout {stdout} stderr {stderr}"))
            }
            Exit::Word(ExitWord::Nonzero | ExitWord::Any) | Exit::Status(_) => Ok(()),
        }
    }

    /// What the CNI specification asks of every call.
    fn check_owed(&self, step: &Step) -> Result<(), String> {
        let (code, msg) = (self.member("code"), self.member("msg"));
        let stdout = excerpt(self.stdout);
        if self.exit != 0 {
            let is_error = code.is_some_and(|code| code.is_i64() || code.is_u64())
                && msg.and_then(Value::as_str).is_some_and(|msg| !msg.is_empty());
            if step.expect.error_json && !is_error {
                let exit = self.exit;
                return Err(format!("exit {exit} but stdout is no error object with code and msg: {stdout}"));
            }
            return Ok(());
        }
        if code.is_some() && msg.is_some() {
            return Err("exit 0 with an error object on stdout".to_owned());
        }
        match step.command.as_deref() {
            Some(command @ ("DEL" | "CHECK" | "GC" | "STATUS")) if !self.stdout.is_empty() => {
                Err(format!("{command} must print nothing on success, printed {stdout}"))
            }
            Some("ADD") => match &self.document {
                Some(result @ Value::Object(_)) => check_result(result),
                _ => Err(format!("ADD succeeded without a result object: {stdout}")),
            },
            _ => Ok(()),
        }
    }

    fn check_error(&self, expect: &Expect) -> Result<(), String> {
        let (code, msg) = (self.member("code"), self.member("msg"));
        let failed = self.exit != 0;
        for codes in [expect.error_code.as_ref(), expect.if_error_code.as_ref().filter(|_| failed)] {
            if let Some(codes) = codes.filter(|codes| !codes.contain(code)) {
                let (code, msg) = (code.unwrap_or(&Value::Null), msg.unwrap_or(&Value::Null));
                return Err(format!("error code {code}, want {codes} (msg {msg})"));
            }
        }
        let text = json_text(self.document.as_ref().unwrap_or(&Value::Null));
        if let Some(word) = expect.error_text_contains.iter().find(|word| !text.contains(*word)) {
            return Err(format!("the error does not name `{word}`: {text}"));
        }
        if let Some(word) = expect.error_text_lacks.iter().find(|word| failed && text.contains(*word)) {
            return Err(format!("the error text contains `{word}`: {text}"));
        }
        Ok(())
    }

    fn check_document(&self, expect: &Expect, context: &Context, index: usize) -> Result<(), Stop> {
        if expect.stdout_empty && !self.stdout.is_empty() {
            return Err(Stop::Fail(format!("stdout not empty: {}", excerpt(self.stdout))));
        }
        if expect.stdout_not_result && !self.addresses()?.is_empty() {
            return Err(Stop::Fail(format!("printed a result: {}", excerpt(self.stdout))));
        }
        if let Some(wanted) = &expect.stdout_json_subset {
            let wanted = in_value(wanted, context, index)?;
            subset::contains(&wanted, self.document.as_ref().unwrap_or(&Value::Null), "$")?;
        }
        Ok(())
    }

    fn check_addresses(&self, expect: &Expect, context: &Context, index: usize) -> Result<(), Stop> {
        let addresses = self.addresses()?;
        if let Some(wanted) = expect.ips_count.filter(|wanted| *wanted != addresses.len()) {
            return Err(Stop::Fail(format!("{} addresses, want {wanted}: {addresses:?}", addresses.len())));
        }
        if let Some(wanted) = &expect.ips {
            let wanted = texts(wanted, context, index)?;
            let same = wanted.len() == addresses.len()
                && wanted.iter().zip(&addresses).all(|(wanted, got)| same_address(wanted, got));
            if !same {
                return Err(Stop::Fail(format!("addresses {addresses:?}, want {wanted:?}")));
            }
        }
        if let Some(nets) = &expect.ips_in {
            check_subnets(&addresses, nets)?;
        }
        if let Some(unwanted) = &expect.ips_not {
            let unwanted = texts(unwanted, context, index)?;
            let bare = |address: &str| address.split('/').next().unwrap_or_default().to_owned();
            if let Some(address) = addresses.iter().find(|address| unwanted.contains(&bare(address))) {
                return Err(Stop::Fail(format!("{address} must not be handed out")));
            }
        }
        if let (Some(wanted), Some(document @ Value::Object(_))) = (&expect.gateways, &self.document) {
            let gateways = result_gateways(document)?;
            if gateways != *wanted {
                let (gateways, wanted) = (Value::from(gateways), Value::from(wanted.as_slice()));
                return Err(Stop::Fail(format!("gateways {gateways}, want {wanted}")));
            }
        }
        for name in &expect.distinct_from {
            let other = result_ips(&context.saved_result(name)?)?;
            let both: Vec<_> = addresses.iter().filter(|address| other.contains(address)).cloned().collect();
            if !both.is_empty() {
                return Err(Stop::Fail(format!("handed out twice: {}", both.join(", "))));
            }
        }
        Ok(())
    }

    fn member(&self, key: &str) -> Option<&Value> {
        self.document.as_ref()?.get(key)
    }

    fn addresses(&self) -> Result<Vec<String>, String> {
        self.document.as_ref().map_or(Ok(Vec::new()), result_ips)
    }
}

/// What an IPAM plugin may print on ADD: addresses, and nothing about interfaces, which it does not make.
fn check_result(result: &Value) -> Result<(), String> {
    if let Some(interfaces) = result.get("interfaces").filter(|interfaces| !is_falsy(interfaces)) {
        return Err(format!("an IPAM result must not carry interfaces: {interfaces}"));
    }
    let entries = result.get("ips").and_then(Value::as_array);
    if entries.into_iter().flatten().any(|entry| entry.get("interface").is_some()) {
        return Err("an IPAM result must not carry `ips[].interface`".to_owned());
    }
    for address in result_ips(result)? {
        match Interface::parse(&address) {
            None => return Err(format!("not an address with a prefix length: `{address}`")),
            Some(interface) if !interface.has_prefix => {
                return Err(format!("address without a prefix length: `{address}`"));
            }
            Some(interface) if interface.is_network_address() => {
                return Err(format!("{address} is the network address"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// An empty list of interfaces says that there are none.
fn is_falsy(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value.as_array().is_some_and(Vec::is_empty)
}

/// Every address lies in one of the nets, has its prefix length and is not its broadcast address.
fn check_subnets(addresses: &[String], nets: &[String]) -> Result<(), String> {
    let nets: Vec<IpNet> = nets
        .iter()
        .map(|net| net.parse().map_err(|error| format!("the case has a bad subnet `{net}`: {error}")))
        .collect::<Result<_, _>>()?;
    for address in addresses {
        let interface = Interface::parse(address).ok_or_else(|| format!("`{address}` is no address"))?;
        let Some(net) = nets.iter().find(|net| net.contains(&interface.ip)) else {
            return Err(format!("{address} lies in none of {nets:?}"));
        };
        if interface.is_broadcast_of(net) {
            return Err(format!("{address} is the broadcast address"));
        }
        if interface.net.prefix_len() != net.prefix_len() {
            return Err(format!("{address}: prefix length is not the subnet's ({})", net.prefix_len()));
        }
    }
    Ok(())
}

/// Addresses as the case writes them, with the placeholders replaced.
fn texts(values: &[Value], context: &Context, index: usize) -> Result<Vec<String>, Stop> {
    let text = |value: &Value| match in_value(value, context, index)? {
        Value::String(text) => Ok(text),
        other => Err(Stop::Fail(format!("the case has {other} where an address belongs"))),
    };
    values.iter().map(text).collect()
}

/// The beginning of what the plugin printed, for a message.
fn excerpt(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 200;
    let beginning = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    format!("{:?}", String::from_utf8_lossy(beginning))
}

mod tests;
