//! Pools as pictures: a Hilbert-curve map in the terminal, as SVG and as a page. Makes texts; writes nothing.

mod hilbert;
mod html;
mod layout;
mod palette;
mod picture;
mod svg;
mod text;

use serde_json::{Value, json};

use super::render::count;
use crate::ipam::Portrait;
use picture::{Picture, What};

/// In a pool of at most so many addresses each is drawn.
pub(super) const ADDRESSES_MAX: u128 = 1 << svg::ADDRESS_BITS_MAX;

/// Maps for a terminal, one below the other.
pub(super) fn text(pools: &[&Portrait], coloured: bool) -> String {
    let each = pools.iter().map(|pool| text::text(&Picture::new(pool, text::BITS_MAX), coloured));
    each.collect::<Vec<_>>().join("\n")
}

/// One pool as SVG.
pub(super) fn svg(pool: &Portrait) -> String {
    svg::svg(&Picture::new(pool, svg::bits_max(pool.cidr)), svg::Legend::Beside)
}

/// Pools on a page. `heading` says which store they are of, and when.
pub(super) fn html(pools: &[&Portrait], heading: &str) -> String {
    let pictures: Vec<_> = pools.iter().map(|pool| Picture::new(pool, svg::bits_max(pool.cidr))).collect();
    html::html(&pictures, heading)
}

/// Where everything lies on the map of the terminal, for those who draw their own.
pub(super) fn value(pools: &[&Portrait]) -> Value {
    let pool = |pool: &&Portrait| {
        let picture = Picture::new(pool, svg::bits_max(pool.cidr));
        let tile = |tile: &picture::Tile| {
            let what = match tile.what {
                What::Carved => "carved",
                What::Frame => "block",
                What::Blocks => "blocks",
                What::Address => "address",
                What::Reserved => "reserved",
            };
            json!({
                "what": what, "x": tile.rect.x, "y": tile.rect.y, "width": tile.rect.width, "height": tile.rect.height,
                "host": tile.host.map(|host| &picture.hosts[host].name),
                "percentInUse": count(tile.percent), "title": tile.title,
            })
        };
        json!({
            "name": pool.name, "cidr": pool.cidr,
            "width": picture.layout.width, "height": picture.layout.height,
            "addressesPerCell": count(picture.layout.cell_size()),
            "tiles": picture.tiles.iter().map(tile).collect::<Vec<_>>(),
        })
    };
    json!({ "pools": pools.iter().map(pool).collect::<Vec<_>>() })
}
