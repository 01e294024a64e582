//! For which project a command line speaks.

use super::Context;
use super::error::Error;
use crate::api::DEFAULT_PROJECT;
use crate::api::validate::is_dns_subdomain;

/// Names the project, for those who do not want to repeat `--project`.
const VARIABLE: &str = "HOST_AFFINE_PROJECT";

impl Context<'_> {
    /// The project that allocations and claims belong to.
    pub(super) fn project(&self) -> Result<String, Error> {
        if let Some(given) = self.given_project()? {
            return Ok(given.to_owned());
        }
        let of_variable = (self.variables)(VARIABLE).filter(|value| !value.is_empty());
        let Some(value) = of_variable else { return Ok(DEFAULT_PROJECT.to_owned()) };
        let value = value.to_string_lossy().into_owned();
        check(&format!("`{VARIABLE}`"), &value)?;
        Ok(value)
    }

    /// The project that `--project` names. Pools belong to one only where it is said so.
    pub(super) fn given_project(&self) -> Result<Option<&str>, Error> {
        let given = self.global.project.as_deref();
        given.map(|name| check("`--project`", name).map(|()| name)).transpose()
    }
}

fn check(what: &str, name: &str) -> Result<(), Error> {
    if is_dns_subdomain(name) {
        return Ok(());
    }
    Err(Error::Argument {
        what: what.to_owned(),
        found: name.to_owned(),
        expected: "lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit"
            .into(),
    })
}
