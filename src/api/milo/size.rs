use super::{PREFIX_LENGTH_ANNOTATION, PoolExtras, REQUESTED_CIDR_ANNOTATION};
use crate::api::ObjectMeta;
use crate::api::calico;
use crate::api::validate::{Problem, annotation as path};
use crate::net::{Cidr, Family, parse_address};

/// What the annotations of an allocation or a claim ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeAsked {
    /// A prefix length.
    pub prefix_length: Option<u8>,
    /// One CIDR and no other. Then the prefix length, if asked for too, is its own.
    pub cidr: Option<Cidr>,
}

impl SizeAsked {
    /// Reads the annotations of an object whose addresses are of `family`.
    ///
    /// # Errors
    /// Everything in them that cannot be.
    pub fn of(metadata: &ObjectMeta, family: Family) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut read = |annotation: &str, parse: fn(&str, Family) -> Result<Self, String>| {
            let text = metadata.annotations.get(annotation)?;
            let refuse = |reason| problems.push(Problem::new(path(annotation), reason));
            parse(text.trim(), family).map_err(refuse).ok()
        };
        let length = read(PREFIX_LENGTH_ANNOTATION, parse_length).and_then(|asked| asked.prefix_length);
        let cidr = read(REQUESTED_CIDR_ANNOTATION, parse_cidr).and_then(|asked| asked.cidr);
        if let (Some(length), Some(cidr)) = (length, cidr)
            && cidr.prefix() != length
        {
            let reason = format!("is {length}, but `{}` is {cidr}", path(REQUESTED_CIDR_ANNOTATION));
            problems.push(Problem::new(path(PREFIX_LENGTH_ANNOTATION), reason));
        }
        if problems.is_empty() { Ok(Self { prefix_length: length, cidr }) } else { Err(problems) }
    }

    /// The prefix length of what an allocation gets out of a pool: what it asks for; else the only one that the pool
    /// gives; else that of the pool's blocks, or of the pool where it is narrower.
    #[must_use]
    pub fn effective_prefix(&self, pool: &calico::IpPoolSpec, extras: &PoolExtras) -> u8 {
        let asked = self.cidr.map(Cidr::prefix).or(self.prefix_length);
        asked
            .or_else(|| extras.allocation.as_ref()?.only())
            .unwrap_or_else(|| pool.block_prefix().max(pool.cidr.prefix()))
    }
}

fn parse_length(text: &str, family: Family) -> Result<SizeAsked, String> {
    let bits = family.bits();
    match text.parse::<u8>() {
        Ok(length) if (1..=bits).contains(&length) && !text.starts_with('+') => {
            Ok(SizeAsked { prefix_length: Some(length), cidr: None })
        }
        _ => Err(format!("is the text {text:?}; expected a prefix length from 1 to {bits} for {family}")),
    }
}

fn parse_cidr(text: &str, family: Family) -> Result<SizeAsked, String> {
    let cidr = match parse_address(text) {
        Some(address) => Cidr::single(address),
        None => text.parse().map_err(|error| format!("cannot be carved: {error}"))?,
    };
    if cidr.family() == family && cidr.prefix() > 0 {
        return Ok(SizeAsked { prefix_length: None, cidr: Some(cidr) });
    }
    Err(format!("is {cidr}; expected a CIDR of {family}, which `spec.ipFamily` names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(family: Family, annotations: &[(&str, &str)]) -> Result<SizeAsked, Vec<String>> {
        let mut metadata = ObjectMeta::default();
        for (short, value) in annotations {
            metadata.annotations.insert(format!("ipam.miloapis.com/{short}"), (*value).to_owned());
        }
        SizeAsked::of(&metadata, family).map_err(|all| all.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_size_is_asked_for_by_length_or_by_cidr() {
        let size = asked(Family::V4, &[("prefix-length", "28")]).expect("a size");
        assert_eq!((size.prefix_length, size.cidr), (Some(28), None));
        let size = asked(Family::V4, &[("requested-cidr", "10.0.0.16/28"), ("prefix-length", "28")]);
        assert_eq!(size.expect("a size").cidr, "10.0.0.16/28".parse().ok());
        let size = asked(Family::V6, &[("requested-cidr", "fd00::7")]).expect("a size");
        assert_eq!(size.cidr, "fd00::7/128".parse().ok());
    }

    #[test]
    fn what_cannot_be_carved_is_refused_at_its_annotation() {
        for (family, annotations, expected) in [
            (Family::V4, &[("prefix-length", "33")][..], "a prefix length from 1 to 32 for IPv4"),
            (Family::V6, &[("prefix-length", "0")], "a prefix length from 1 to 128 for IPv6"),
            (Family::V4, &[("prefix-length", "+8")], "a prefix length from 1 to 32"),
            (Family::V4, &[("prefix-length", "/26")], "the text \"/26\""),
            (Family::V4, &[("requested-cidr", "10.0.0.5/28")], "did you mean `10.0.0.0/28`?"),
            (Family::V4, &[("requested-cidr", "fd00::/64")], "expected a CIDR of IPv4"),
            (Family::V4, &[("requested-cidr", "10.0.0.0/28"), ("prefix-length", "27")], "is 27, but"),
        ] {
            let problems = asked(family, annotations).expect_err(expected);
            assert!(
                problems.len() == 1
                    && problems[0].starts_with("`metadata.annotations.\"ipam.miloapis.com/")
                    && problems[0].contains(expected),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn without_a_word_about_size_the_pool_decides() {
        let pool = |cidr: &str, block| {
            let mut spec = calico::IpPoolSpec::new(cidr.parse().expect(cidr));
            spec.block_size = block;
            spec
        };
        let only = |length| PoolExtras {
            allocation: Some(super::super::AllocationRules {
                min_prefix_length: Some(length),
                max_prefix_length: Some(length),
                ..Default::default()
            }),
            ..PoolExtras::default()
        };
        let nothing = SizeAsked::default();
        let of = |size: SizeAsked, pool, extras| size.effective_prefix(&pool, &extras);
        assert_eq!(of(nothing, pool("10.0.0.0/16", None), PoolExtras::default()), 26);
        assert_eq!(of(nothing, pool("10.0.0.0/16", Some(28)), PoolExtras::default()), 28);
        assert_eq!(of(nothing, pool("fd00::/48", None), only(64)), 64);
        assert_eq!(of(nothing, pool("10.0.0.0/29", None), PoolExtras::default()), 29);
        let asked = SizeAsked { prefix_length: Some(32), cidr: None };
        assert_eq!(of(asked, pool("10.0.0.0/16", None), only(24)), 32);
    }
}
