//! The map as SVG: by itself, or as part of a page.

use std::fmt::Write as _;

use super::super::render::printable;
use super::layout::Rect;
use super::palette::{Colour, NOBODY};
use super::picture::{Picture, Tile, What, cell_words, grouped};
use crate::net::Cidr;

/// So many cells have a place: 128 by 128.
pub(super) const BITS_MAX: u32 = 14;
/// In a pool of at most so many addresses each is drawn.
pub(super) const ADDRESS_BITS_MAX: u32 = 12;
/// The width of the map, in pixels.
const WIDTH: u32 = 1024;
const MARGIN: u32 = 32;
/// Above the map.
const HEAD: u32 = 92;
/// Below the map.
const FOOT: u32 = 96;
/// Beside the map.
const LEGEND: u32 = 320;
const LEGEND_ROW: u32 = 24;

/// What people carved out, as shapes are filled.
const CARVED_LOOK: &str = "fill=\"url(#carved)\"";

/// A drawing, and what it shows.
pub(super) struct Drawing {
    svg: String,
    cell: u32,
}

/// Whether a legend stands beside the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Legend {
    Beside,
    None,
}

/// How many bits of cells the drawing of a pool has.
pub(super) fn bits_max(pool: Cidr) -> u32 {
    let pool_bits = u32::from(pool.family().bits() - pool.prefix());
    if pool_bits <= ADDRESS_BITS_MAX { ADDRESS_BITS_MAX } else { BITS_MAX }
}

/// The whole drawing.
pub(super) fn svg(picture: &Picture<'_>, legend: Legend) -> String {
    let cell = (WIDTH / picture.layout.width.max(1)).clamp(1, 64);
    let (map_width, map_height) = (picture.layout.width * cell, picture.layout.height * cell);
    let listed_max = usize::try_from((map_height.max(480) - 48) / LEGEND_ROW).unwrap_or(8);
    let beside = if legend == Legend::Beside { LEGEND } else { 0 };
    let width = map_width + 2 * MARGIN + beside;
    let height = (map_height.max(if beside > 0 { 480 } else { 0 })) + HEAD + FOOT;
    let mut drawing = Drawing { svg: String::new(), cell };
    let out = &mut drawing.svg;
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" role=\"img\">"
    );
    let title = format!("{} {}", printable(&picture.pool.name), picture.pool.cidr);
    let _ = writeln!(out, "<title>{}</title>", escaped(&title));
    let _ = writeln!(
        out,
        "<defs><pattern id=\"reserved\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"6\" height=\"6\" fill=\"#eef0f3\"/><rect width=\"2\" height=\"6\" fill=\"#b4bac4\"/></pattern>\
         <pattern id=\"carved\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
         <rect width=\"6\" height=\"6\" fill=\"#dfe4ea\"/><circle cx=\"3\" cy=\"3\" r=\"1.3\" fill=\"#8792a3\"/></pattern></defs>"
    );
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"46\" font-size=\"26\" font-weight=\"650\" fill=\"#1b2430\">{}\
         <tspan dx=\"12\" font-weight=\"400\" fill=\"#596273\">{}</tspan></text>",
        escaped(&printable(&picture.pool.name)),
        picture.pool.cidr
    );
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"74\" font-size=\"15\" fill=\"#596273\">{}</text>",
        escaped(&picture.summary())
    );
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {HEAD})\">");
    drawing.ground(picture, map_width, map_height);
    for tile in &picture.tiles {
        drawing.tile(tile);
    }
    drawing.regions(picture);
    drawing.svg.push_str("</g>\n");
    if legend == Legend::Beside {
        drawing.legend(picture, MARGIN + map_width + 32, listed_max);
    }
    drawing.key(picture, HEAD + map_height + 18);
    let _ = writeln!(
        drawing.svg,
        "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"13\" fill=\"#7a8494\">Each cell is {}. Cells follow a Hilbert curve \
         from the upper left: what is near in the pool is near on the map.</text>",
        HEAD + map_height + 66,
        cell_words(&picture.layout, picture.pool)
    );
    drawing.svg.push_str("</svg>\n");
    drawing.svg
}

impl Drawing {
    /// What is free, in quiet: one surface with a faint grid where cells are large enough to be told apart.
    fn ground(&mut self, picture: &Picture<'_>, width: u32, height: u32) {
        let _ = writeln!(
            self.svg,
            "<rect width=\"{width}\" height=\"{height}\" fill=\"#f5f6f8\" stroke=\"#dde1e7\"/>"
        );
        if self.cell < 12 {
            return;
        }
        let mut path = String::new();
        for column in 1..picture.layout.width {
            let _ = write!(path, "M{} 0V{height}", column * self.cell);
        }
        for row in 1..picture.layout.height {
            let _ = write!(path, "M0 {}H{width}", row * self.cell);
        }
        let _ = writeln!(self.svg, "<path d=\"{path}\" stroke=\"#ebedf1\" fill=\"none\"/>");
    }

    fn tile(&mut self, tile: &Tile) {
        let colour = tile.host.map_or(NOBODY, Colour::of_host);
        let gap = match (tile.what, self.cell) {
            (What::Frame, _) | (_, 6..24) => 1,
            (_, 0..6) => 0,
            _ => 3,
        };
        let Rect { x, y, width, height } = tile.rect;
        let (x, y) = (x * self.cell + gap, y * self.cell + gap);
        let (width, height) = (
            (width * self.cell).saturating_sub(2 * gap).max(1),
            (height * self.cell).saturating_sub(2 * gap).max(1),
        );
        let round = if self.cell >= 12 { 3 } else { u32::from(self.cell >= 6) };
        let look = match tile.what {
            What::Frame => format!("fill=\"{}\" stroke=\"{colour}\" stroke-width=\"2\"", colour.used(8)),
            What::Blocks => format!("fill=\"{}\" stroke=\"{}\"", colour.used(tile.percent), colour.used(70)),
            What::Address => format!("fill=\"{}\"", colour.used(tile.percent)),
            What::Carved => format!("{CARVED_LOOK} stroke=\"#3a4454\""),
            What::Reserved => "fill=\"url(#reserved)\"".to_owned(),
        };
        let host = tile.host.map_or_else(|| "none".to_owned(), |host| host.to_string());
        let _ = writeln!(
            self.svg,
            "<rect class=\"t h{host}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\" {look}><title>{}</title></rect>",
            escaped(&tile.title)
        );
    }

    /// Where parts of the pool begin: sixteen of them, with their ranges.
    fn regions(&mut self, picture: &Picture<'_>) {
        let pool = picture.pool.cidr;
        let prefix = pool.prefix() + 4;
        if prefix > pool.family().bits() || prefix > picture.pool.block_prefix || picture.layout.width < 16 {
            return;
        }
        for number in 0..16 {
            let Some(range) = pool.nth_subnet(prefix, number) else { continue };
            let Some(Rect { x, y, width, height }) = picture.layout.rect(range) else { continue };
            let (x, y) = (x * self.cell, y * self.cell);
            let (width, height) = (width * self.cell, height * self.cell);
            let _ = writeln!(
                self.svg,
                "<rect class=\"region\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#1b2430\" stroke-opacity=\".28\" pointer-events=\"none\"/>"
            );
            let _ = writeln!(
                self.svg,
                "<text class=\"region\" x=\"{}\" y=\"{}\" font-size=\"12\" fill=\"#1b2430\" stroke=\"#ffffff\" stroke-width=\"3\" stroke-opacity=\".8\" paint-order=\"stroke\" pointer-events=\"none\">{range}</text>",
                x + 7,
                y + 17
            );
        }
    }

    /// What the looks of tiles mean, on one line.
    fn key(&mut self, picture: &Picture<'_>, y: u32) {
        let sample = Colour::of_host(0);
        let full = |percent| format!("fill=\"{}\" stroke=\"{}\"", sample.used(percent), sample.used(70));
        let nowhere = ("fill=\"#f5f6f8\" stroke=\"#dde1e7\"".to_owned(), "in no block");
        let nobody = (format!("fill=\"{}\"", NOBODY.used(70)), "of no host");
        let mut looks = if picture.layout.is_of_addresses() {
            vec![
                (full(100), "in use"),
                (full(30), "cools down"),
                (
                    format!("fill=\"{}\" stroke=\"{sample}\" stroke-width=\"2\"", sample.used(8)),
                    "free in a block",
                ),
                ("fill=\"url(#reserved)\"".to_owned(), "reserved"),
                nowhere,
                nobody,
            ]
        } else {
            vec![
                (full(0), "empty"),
                (full(25), "25%"),
                (full(50), "50%"),
                (full(75), "75%"),
                (full(100), "full"),
                nowhere,
                nobody,
            ]
        };
        if !picture.pool.carved.is_empty() {
            looks.push((CARVED_LOOK.to_owned(), "carved out"));
        }
        let _ =
            writeln!(self.svg, "<g transform=\"translate({MARGIN} {y})\" font-size=\"13\" fill=\"#3a4454\">");
        let mut x = 0;
        for (look, word) in looks {
            let _ = writeln!(
                self.svg,
                "<rect x=\"{x}\" width=\"16\" height=\"16\" rx=\"3\" {look}/><text x=\"{}\" y=\"13\">{word}</text>",
                x + 24
            );
            x += 56 + 7 * u32::try_from(word.len()).unwrap_or(0);
        }
        self.svg.push_str("</g>\n");
    }

    fn legend(&mut self, picture: &Picture<'_>, x: u32, listed_max: usize) {
        let out = &mut self.svg;
        let _ = writeln!(out, "<g transform=\"translate({x} {HEAD})\" font-size=\"14\" fill=\"#1b2430\">");
        let _ = writeln!(
            out,
            "<text y=\"12\" font-weight=\"650\">Hosts</text><text x=\"196\" y=\"12\" font-size=\"12\" fill=\"#596273\" text-anchor=\"end\">blocks</text><text x=\"268\" y=\"12\" font-size=\"12\" fill=\"#596273\" text-anchor=\"end\">in use</text>"
        );
        let mut order: Vec<usize> = (0..picture.hosts.len()).collect();
        order.sort_by_key(|number| {
            std::cmp::Reverse((picture.hosts[*number].blocks, picture.hosts[*number].addresses))
        });
        order.truncate(listed_max);
        order.sort_unstable();
        let mut y = 24;
        for number in order {
            let host = &picture.hosts[number];
            let name: String = printable(&host.name).chars().take(17).collect();
            let _ = writeln!(
                out,
                "<rect y=\"{y}\" width=\"16\" height=\"16\" rx=\"2\" fill=\"{}\"/><text x=\"24\" y=\"{}\">{}</text><text x=\"196\" y=\"{1}\" text-anchor=\"end\">{}</text><text x=\"268\" y=\"{1}\" text-anchor=\"end\">{}</text>",
                Colour::of_host(number),
                y + 13,
                escaped(&name),
                grouped(host.blocks),
                grouped(host.addresses)
            );
            y += LEGEND_ROW;
        }
        if picture.hosts.len() > listed_max {
            let _ = writeln!(
                out,
                "<text x=\"24\" y=\"{}\" fill=\"#596273\">and {} more hosts</text>",
                y + 13,
                picture.hosts.len() - listed_max
            );
        }
        out.push_str("</g>\n");
    }
}

/// A text as XML has it. Control characters, which XML does not have, were written out before.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
