use std::fmt;

/// Where a value stands in an object, such as `spec.reservedCIDRs[2]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

/// One step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a member of an object.
    Key(String),
    /// To an entry of a list, counted from 0.
    Index(usize),
}

impl Path {
    /// The object itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Whether it is the object itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The steps, from the object on.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The path of a member.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Step::Key(key.into()))
    }

    /// The path of an entry.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    let dot = if place == 0 { "" } else { "." };
                    // A key with dots, such as a label's, would read as several.
                    let quote = if key.contains('.') { "\"" } else { "" };
                    write!(f, "{dot}{quote}{}{quote}", key.escape_debug())?;
                }
            }
        }
        Ok(())
    }
}
