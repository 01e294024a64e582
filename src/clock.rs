//! The only place that asks for the time. Everything else is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A source of the present time.
pub trait Clock {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one home of the system's clock")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 counts as 1970: the oldest time that an address can carry.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A moment in UTC: nanoseconds since 1970. Written in RFC 3339 with whole seconds, as Calico does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment that many nanoseconds after the start of 1970.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of 1970.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Parses RFC 3339.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let moment: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(moment.as_nanosecond()).ok().map(Self)
    }

    /// Parses what [`Timestamp::to_go_string`] and Go's `time.String` print, in any zone, with or without its name.
    #[must_use]
    pub fn parse_go_string(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
        let (hours, minutes) = zone.split_at_checked(3)?;
        Self::parse(&format!("{date}T{time}{hours}:{minutes}"))
    }

    /// The form in which Calico's plugin notes the time of an assignment: that of Go's `time.String`.
    #[must_use]
    pub fn to_go_string(self) -> String {
        let text = self.to_string();
        let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap_or((&text, ""));
        let nanos = self.0 % 1_000_000_000;
        let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}") };
        format!("{date} {time}{} +0000 UTC", fraction.trim_end_matches('0'))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = i64::try_from(self.0 / 1_000_000_000).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_second(seconds) {
            Ok(moment) => moment.fmt(f),
            Err(_) => f.write_str("9999-12-31T23:59:59Z"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_calico_writes_it() {
        let time = Timestamp::parse("2026-08-22T06:33:20.5Z").expect("time");
        assert_eq!(time.to_string(), "2026-08-22T06:33:20Z");
        assert_eq!(time.to_go_string(), "2026-08-22 06:33:20.5 +0000 UTC");
        assert_eq!(Timestamp::from_nanos(0).to_go_string(), "1970-01-01 00:00:00 +0000 UTC");
        for text in ["2026-08-22 06:33:20.5 +0000 UTC", "2026-08-22 08:33:20.5 +0200 CEST m=+0.013"] {
            assert_eq!(Timestamp::parse_go_string(text), Some(time), "{text}");
        }
        for text in ["", "2026-08-22", "2026-08-22 06:33:20 UTC", "2026-08-22 06:33:20 +\u{e9}0 UTC"] {
            assert_eq!(Timestamp::parse_go_string(text), None, "{text}");
        }
        assert_eq!(Timestamp::parse("yesterday"), None);
    }
}
