//! The selector language of Calico: which nodes and namespaces a pool serves.

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use parse::{Found, NESTING_MAX, SelectorError};

/// A condition on labels, such as `zone == "north" && !has(spare)`.
///
/// `Display` gives it in one canonical form, which parses to an equal selector: double quotes where the value has
/// none, sets in ascending order, parentheses only where they change the meaning.
///
/// # Source
/// calico `libcalico-go/lib/selector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    root: Node,
}

impl Selector {
    /// Reads a selector. The empty text selects all, as `all()` does.
    ///
    /// # Errors
    /// When the text is not wholly one selector, or its parentheses nest deeper than [`NESTING_MAX`].
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map(|root| Self { root })
    }

    /// Whether an object with these labels is selected.
    ///
    /// A label that is absent differs from every value: `!=` and `not in` hold for it, the other operators do not.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.root.matches(labels)
    }

    /// Whether it is `all()` or empty. A longer selector that happens to hold for everything is not.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.root == Node::All
    }

    /// Whether `global()` occurs in it: true for every object here, and forbidden in the selectors of a pool.
    #[must_use]
    pub fn mentions_global(&self) -> bool {
        self.root.mentions_global()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.root, f)
    }
}

/// No `Not` holds a `Not`, no `And` an `And`, no `Or` an `Or`, and the latter two have at least two parts:
/// so equal text in canonical form and equal nodes are the same thing. The parser sees to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    All,
    Global,
    Has(String),
    Compare { label: String, operator: Operator, value: String },
    In { label: String, values: BTreeSet<String> },
    NotIn { label: String, values: BTreeSet<String> },
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    Differs,
    Contains,
    StartsWith,
    EndsWith,
}

// Recursion below goes no deeper than the parser let the parentheses nest.
impl Node {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Node::All | Node::Global => true,
            Node::Has(label) => labels.contains_key(label),
            Node::Compare { label, operator, value } => operator.holds(labels.get(label), value),
            Node::In { label, values } => labels.get(label).is_some_and(|found| values.contains(found)),
            Node::NotIn { label, values } => labels.get(label).is_none_or(|found| !values.contains(found)),
            Node::Not(inner) => !inner.matches(labels),
            Node::And(parts) => parts.iter().all(|part| part.matches(labels)),
            Node::Or(parts) => parts.iter().any(|part| part.matches(labels)),
        }
    }

    fn mentions_global(&self) -> bool {
        match self {
            Node::Global => true,
            Node::All | Node::Has(_) | Node::Compare { .. } | Node::In { .. } | Node::NotIn { .. } => false,
            Node::Not(inner) => inner.mentions_global(),
            Node::And(parts) | Node::Or(parts) => parts.iter().any(Node::mentions_global),
        }
    }

    /// Writes it as an operand of `&&` or `!`, which bind stronger than what joins others.
    fn fmt_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::And(_) | Node::Or(_) => write!(f, "({self})"),
            _ => write!(f, "{self}"),
        }
    }
}

impl Operator {
    fn holds(self, found: Option<&String>, value: &str) -> bool {
        match self {
            Operator::Equals => found.is_some_and(|found| found == value),
            Operator::Differs => found.is_none_or(|found| found != value),
            Operator::Contains => found.is_some_and(|found| found.contains(value)),
            Operator::StartsWith => found.is_some_and(|found| found.starts_with(value)),
            Operator::EndsWith => found.is_some_and(|found| found.ends_with(value)),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Operator::Equals => "==",
            Operator::Differs => "!=",
            Operator::Contains => "contains",
            Operator::StartsWith => "starts with",
            Operator::EndsWith => "ends with",
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::All => f.write_str("all()"),
            Node::Global => f.write_str("global()"),
            Node::Has(label) => write!(f, "has({label})"),
            Node::Compare { label, operator, value } => {
                write!(f, "{label} {} {}", operator.text(), Quoted(value))
            }
            Node::In { label, values } => write!(f, "{label} in {}", Set(values)),
            Node::NotIn { label, values } => write!(f, "{label} not in {}", Set(values)),
            // `!` negates all of `label == "value"`, which needs no parentheses.
            Node::Not(inner) => {
                f.write_str("!")?;
                inner.fmt_operand(f)
            }
            Node::And(parts) => separated(f, parts, " && ", |f, part| part.fmt_operand(f)),
            Node::Or(parts) => separated(f, parts, " || ", |f, part| write!(f, "{part}")),
        }
    }
}

/// A value in the quotes that it does not contain. There are no escapes, so none has both.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('"') { '\'' } else { '"' };
        write!(f, "{quote}{}{quote}", self.0)
    }
}

struct Set<'a>(&'a BTreeSet<String>);

impl fmt::Display for Set<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("{}");
        }
        f.write_str("{ ")?;
        separated(f, self.0, ", ", |f, value| write!(f, "{}", Quoted(value)))?;
        f.write_str(" }")
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
    write: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write(f, item)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
