use std::net::IpAddr;

use super::section::{Section, Value};
use crate::cni::failure::Failure;
use crate::net::{Cidr, Family};

/// A route of a container.
///
/// `table` and `scope` have a meaning at 0, so absent and 0 differ; of the others 0 means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub dst: Cidr,
    /// The next hop. `None`: the first gateway of its family, or none.
    pub gw: Option<IpAddr>,
    /// In bytes.
    pub mtu: Option<u32>,
    /// The largest TCP segment to announce, in bytes.
    pub advmss: Option<u32>,
    /// The metric: lower is preferred.
    pub priority: Option<u32>,
    /// The routing table.
    pub table: Option<u32>,
    /// The scope: 0 is global, 253 the link.
    pub scope: Option<u32>,
}

impl Route {
    /// A route without anything else.
    #[must_use]
    pub const fn to(dst: Cidr) -> Self {
        Self { dst, gw: None, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }

    /// Reads `routes`, and refuses what the kernel would refuse when it is too late.
    pub(super) fn read_all(ipam: &Section<'_, '_>) -> Result<Vec<Route>, Failure> {
        let mut routes: Vec<Route> = Vec::new();
        let Some(list) = ipam.get("routes") else {
            return Ok(routes);
        };
        for value in list.list()? {
            let route = Self::read(&value.section()?)?;
            let key = |route: &Route| (route.dst, route.priority, route.table);
            if let Some(first) = routes.iter().position(|other| key(other) == key(&route)) {
                let dst = route.dst;
                return Err(
                    value.problem(format!("the route to `{dst}` is already in `ipam.routes[{first}]`"))
                );
            }
            routes.push(route);
        }
        Ok(routes)
    }

    fn read(section: &Section<'_, '_>) -> Result<Route, Failure> {
        let dst = section.cidr("dst")?.ok_or_else(|| section.problem("has no `dst`"))?;
        let gw = section.address("gw")?;
        if let Some(gw) = gw.filter(|gw| Family::of(*gw) != dst.family()) {
            return Err(section.problem(format!("leads to `{dst}` by `{gw}`, which is of the other family")));
        }
        let not_zero =
            |key| Ok::<_, Failure>(section.get(key).map(Value::number).transpose()?.filter(|&n| n != 0));
        Ok(Route {
            gw,
            mtu: not_zero("mtu")?,
            advmss: not_zero("advmss")?,
            priority: not_zero("priority")?,
            table: section.number("table")?,
            scope: section.number("scope")?,
            ..Route::to(dst)
        })
    }
}
