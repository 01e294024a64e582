//! Where things of a pool lie on its map. A map has a bounded number of cells: addresses, blocks, or several blocks each.

use super::hilbert::{self, BITS_MAX};
use crate::net::Cidr;

/// A part of a map, in cells from the upper left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// The map of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pool: Cidr,
    /// The addresses of a cell are 2 to the power of this.
    cell_bits: u32,
    /// The side of the square of which the map is the whole, or the first half.
    order: u32,
    /// Whether x and y change places, so that a half lies rather than stands.
    turned: bool,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Layout {
    /// A map of at most `2^bits_max` cells. A cell is one address where that is enough, else whole blocks.
    pub(super) fn new(pool: Cidr, block_prefix: u8, bits_max: u32) -> Self {
        let bits = u32::from(pool.family().bits());
        let pool_bits = bits.saturating_sub(pool.prefix().into());
        let block_bits = bits.saturating_sub(block_prefix.into()).min(pool_bits);
        let bits_max = bits_max.min(BITS_MAX);
        let cell_bits =
            if pool_bits <= bits_max { 0 } else { block_bits.max(pool_bits.saturating_sub(bits_max)) };
        let order = (pool_bits - cell_bits).div_ceil(2);
        let mut layout = Self { pool, cell_bits, order, turned: false, width: 1, height: 1 };
        let Rect { width, height, .. } = layout.square_of(0, pool_bits - cell_bits);
        layout.turned = width < height;
        (layout.width, layout.height) = (width.max(height), width.min(height));
        layout
    }

    /// Whether each cell is one address.
    pub(super) const fn is_of_addresses(&self) -> bool {
        self.cell_bits == 0
    }

    /// How many addresses a cell has.
    pub(super) fn cell_size(&self) -> u128 {
        1u128.checked_shl(self.cell_bits).unwrap_or(u128::MAX)
    }

    /// Where a range lies: its own cells, or the one that it shares with others. `None`: outside of the pool.
    pub(super) fn rect(&self, range: Cidr) -> Option<Rect> {
        if !self.pool.contains(range) {
            return None;
        }
        let offset = range.first_bits() - self.pool.first_bits();
        let first = u32::try_from(offset.checked_shr(self.cell_bits).unwrap_or(0)).ok()?;
        let range_bits = u32::from(range.family().bits() - range.prefix());
        let rect = self.square_of(first, range_bits.saturating_sub(self.cell_bits));
        Some(if self.turned { rect.turned() } else { rect })
    }

    /// The number of the cell in which a range begins, along the line. `None`: outside of the pool.
    pub(super) fn place(&self, range: Cidr) -> Option<u32> {
        let offset = self.pool.contains(range).then(|| range.first_bits() - self.pool.first_bits())?;
        u32::try_from(offset.checked_shr(self.cell_bits).unwrap_or(0)).ok()
    }

    /// The cells of an aligned part of the line: a square, or two of them side by side.
    fn square_of(&self, first: u32, bits: u32) -> Rect {
        let at = |distance| {
            let (x, y) = hilbert::cell(self.order, distance);
            let side = 1u32 << (bits / 2);
            // Aligned parts fill aligned squares.
            Rect { x: x & !(side - 1), y: y & !(side - 1), width: side, height: side }
        };
        let square = at(first);
        if bits.is_multiple_of(2) { square } else { square.with(at(first + (1 << (bits - 1)))) }
    }
}

impl Rect {
    const fn turned(self) -> Self {
        Self { x: self.y, y: self.x, width: self.height, height: self.width }
    }

    /// The smallest that has both.
    fn with(self, other: Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let right = (self.x + self.width).max(other.x + other.width);
        let bottom = (self.y + self.height).max(other.y + other.height);
        Self { x, y, width: right - x, height: bottom - y }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect(text)
    }

    #[test]
    fn blocks_of_any_size_fill_the_map_without_gap_or_overlap() {
        for (pool, block, cells) in [
            ("10.0.0.0/24", 26, (16, 16)),
            ("10.0.0.0/24", 29, (16, 16)),
            ("10.0.0.0/25", 27, (16, 8)),
            ("10.0.0.0/16", 26, (32, 32)),
            ("10.0.0.0/15", 26, (64, 32)),
            ("10.0.0.0/12", 26, (64, 64)),
            ("fd00::/112", 122, (32, 32)),
            ("10.0.0.0/32", 32, (1, 1)),
        ] {
            let pool = cidr(pool);
            let layout = Layout::new(pool, block, 12);
            assert_eq!((layout.width, layout.height), cells, "{pool}");
            let prefix = block.min(pool.family().bits());
            let mut covered = std::collections::BTreeMap::new();
            for number in 0..pool.subnet_count(prefix) {
                let range = pool.nth_subnet(prefix, number).expect("a block");
                let Rect { x, y, width, height } = layout.rect(range).expect("inside");
                for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
                    *covered.entry(cell).or_insert(0) += 1;
                }
            }
            assert_eq!(covered.len(), usize::try_from(cells.0 * cells.1).expect("few"), "{pool}");
            let each = covered.values().copied().collect::<std::collections::BTreeSet<u32>>();
            assert_eq!(each.len(), 1, "{pool}: {each:?}");
            assert!(covered.keys().all(|(x, y)| *x < layout.width && *y < layout.height), "{pool}");
        }
    }

    #[test]
    fn a_vast_pool_has_as_many_cells_as_any() {
        let layout = Layout::new(cidr("fd00::/64"), 122, 12);
        assert_eq!((layout.width, layout.height), (64, 64));
        assert_eq!(layout.cell_size(), 1 << 52);
        let last = layout.rect(cidr("fd00::ffff:ffff:ffff:ffc0/122")).expect("inside");
        assert_eq!((last.width, last.height), (1, 1));
        assert_eq!(layout.rect(cidr("fd01::/122")), None);
        assert_eq!(
            (Layout::new(cidr("::/0"), 122, 12).width, Layout::new(cidr("0.0.0.0/0"), 26, 10).width),
            (64, 32)
        );
    }
}
