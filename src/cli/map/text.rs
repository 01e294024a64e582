//! The map in a terminal. Every cell is two characters: a letter for the host, and a shade for how full it is; so the map
//! can be read without colour.

use std::fmt::Write as _;

use super::super::render::printable;
use super::layout::Rect;
use super::palette::{Colour, NOBODY};
use super::picture::{Picture, Tile, What, cell_words, grouped};

/// So many cells fit on a screen of 80 columns: 32 by 32.
pub(super) const BITS_MAX: u32 = 10;
/// The letters of hosts.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The letter of hosts for which there is none.
const OTHERS: char = '*';
/// The width of a screen.
const COLUMNS: usize = 80;
/// Where nothing is.
const EMPTY: &str = " \u{b7}";

/// A pool's map, with a legend.
pub(super) fn text(picture: &Picture<'_>, coloured: bool) -> String {
    let mut text =
        format!("{} {}: {}\n\n", printable(&picture.pool.name), picture.pool.cidr, picture.summary());
    let letters = Letters::of(picture);
    let (width, height) = (picture.layout.width, picture.layout.height);
    let mut cells = vec![vec![None; at(width)]; at(height)];
    for tile in &picture.tiles {
        let Rect { x, y, width, height } = tile.rect;
        for row in cells.iter_mut().skip(at(y)).take(at(height)) {
            row.iter_mut().skip(at(x)).take(at(width)).for_each(|cell| *cell = Some(tile));
        }
    }
    for row in cells {
        let mut line = String::from("  ");
        for tile in row {
            match tile {
                Some(tile) => line.push_str(&cell(tile, &letters, coloured)),
                None => line.push_str(EMPTY),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    legend(&mut text, picture, &letters, coloured);
    text
}

fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn cell(tile: &Tile, letters: &Letters, coloured: bool) -> String {
    let letter = letters.letter(tile.host);
    let shade = match tile.what {
        What::Reserved => return " x".to_owned(),
        What::Carved => return " #".to_owned(),
        What::Frame => "\u{b7}",
        _ => shade(tile.percent),
    };
    if !coloured {
        return format!("{letter}{shade}");
    }
    let colour = tile.host.map_or(NOBODY, Colour::of_host).used(tile.percent);
    let ink = if colour.is_light() { 16 } else { 231 };
    format!("\x1b[48;5;{};38;5;{ink}m{letter}{shade}\x1b[0m", colour.of_terminal())
}

/// Five steps from empty to full.
const fn shade(percent: u128) -> &'static str {
    match percent {
        0 => "\u{b7}",
        1..=25 => "\u{2591}",
        26..=60 => "\u{2592}",
        61..=99 => "\u{2593}",
        _ => "\u{2588}",
    }
}

/// Which host has which letter: those with the most blocks have one of their own.
struct Letters(Vec<char>);

impl Letters {
    fn of(picture: &Picture<'_>) -> Self {
        let mut order: Vec<usize> = (0..picture.hosts.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(rank(picture, *number)));
        let mut with_letter: Vec<usize> = order.into_iter().take(LETTERS.len()).collect();
        // In the order of their names, so that a letter is soon found.
        with_letter.sort_unstable();
        let mut letters = vec![OTHERS; picture.hosts.len()];
        for (number, letter) in with_letter.into_iter().zip(LETTERS) {
            letters[number] = char::from(*letter);
        }
        Self(letters)
    }

    /// `-`: nobody's.
    fn letter(&self, host: Option<usize>) -> char {
        host.and_then(|host| self.0.get(host)).copied().unwrap_or('-')
    }
}

fn rank(picture: &Picture<'_>, number: usize) -> (u128, u128) {
    picture.hosts.get(number).map_or((0, 0), |host| (host.blocks, host.addresses))
}

fn legend(text: &mut String, picture: &Picture<'_>, letters: &Letters, coloured: bool) {
    let _ = writeln!(text, "  Each cell is {}.", cell_words(&picture.layout, picture.pool));
    text.push_str(if picture.layout.is_of_addresses() {
        "  A\u{2588} in use by A   A\u{b7} free, in a block of A   -\u{2588} in use, of no host\n  \
           A\u{2591} cools down    x reserved   \u{b7} in no block"
    } else {
        "  A\u{b7} empty  A\u{2591} up to 25%  A\u{2592} 60%  A\u{2593} below 100%  A\u{2588} full  -\u{2592} kept for nobody   \u{b7} no block"
    });
    text.push_str(if picture.pool.carved.is_empty() { "\n" } else { "   # carved out\n" });
    let with_letter: Vec<usize> =
        (0..picture.hosts.len()).filter(|number| letters.letter(Some(*number)) != OTHERS).collect();
    let entry = |number: &usize| {
        let host = &picture.hosts[*number];
        let counts = format!("{}, {} in use", counted_blocks(host.blocks), grouped(host.addresses));
        (*number, printable(&host.name), counts)
    };
    let entries: Vec<_> = with_letter.iter().map(entry).collect();
    let widest = |text: fn(&(usize, String, String)) -> &str| {
        entries.iter().map(|entry| text(entry).chars().count()).max().unwrap_or(0)
    };
    let (names, counts) = (widest(|entry| &entry.1), widest(|entry| &entry.2));
    let columns = (COLUMNS / (names + counts + 9)).max(1);
    let rows = entries.len().div_ceil(columns);
    for row in 0..rows {
        let mut line = String::from("\n ");
        for (number, name, count) in entries.iter().skip(row).step_by(rows) {
            let letter = letters.letter(Some(*number));
            let letter = if coloured {
                let colour = Colour::of_host(*number);
                let ink = if colour.is_light() { 16 } else { 231 };
                format!("\x1b[48;5;{};38;5;{ink}m {letter} \x1b[0m", colour.of_terminal())
            } else {
                format!(" {letter} ")
            };
            let _ = write!(line, "{letter} {name:names$}  {count:<counts$}   ");
        }
        text.push_str(line.trim_end());
    }
    let others = picture.hosts.len() - entries.len();
    if others > 0 {
        let _ = write!(text, "\n  {OTHERS}  {others} more hosts");
    }
    if !picture.hosts.is_empty() {
        text.push('\n');
    }
}

fn counted_blocks(blocks: u128) -> String {
    format!("{} {}", grouped(blocks), if blocks == 1 { "block" } else { "blocks" })
}
