//! The Hilbert curve: a line through every cell of a square, on which neighbours stay neighbours, and each aligned part
//! of the line fills a square or half of one.

/// How many bits a square has at most, of which each side takes half.
pub(super) const BITS_MAX: u32 = 32;

/// The cell at a distance from the start, in a square of `2^order` cells a side.
pub(super) fn cell(order: u32, distance: u32) -> (u32, u32) {
    let (mut x, mut y) = (0, 0);
    for level in 0..order {
        let digit = (distance >> (2 * level)) & 3;
        let side = 1 << level;
        let (right, up) = (digit >> 1, (digit ^ (digit >> 1)) & 1);
        if up == 0 {
            if right == 1 {
                (x, y) = (side - 1 - x, side - 1 - y);
            }
            (x, y) = (y, x);
        }
        (x, y) = (x + right * side, y + up * side);
    }
    (x, y)
}

/// The distance of a cell from the start: the inverse of [`cell`].
#[cfg(test)]
fn distance(order: u32, (mut x, mut y): (u32, u32)) -> u32 {
    let mut distance = 0;
    for level in (0..order).rev() {
        let side = 1 << level;
        let (right, up) = ((x >> level) & 1, (y >> level) & 1);
        distance += ((3 * right) ^ up) << (2 * level);
        (x, y) = (x & (side - 1), y & (side - 1));
        if up == 0 {
            if right == 1 {
                (x, y) = (side - 1 - x, side - 1 - y);
            }
            (x, y) = (y, x);
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_passed_once_and_found_again() {
        for order in 0..=6 {
            let cells = 1u32 << (2 * order);
            let mut seen = std::collections::BTreeSet::new();
            for place in 0..cells {
                let at = cell(order, place);
                assert!(at.0 < 1 << order && at.1 < 1 << order, "{at:?}");
                assert!(seen.insert(at), "{at:?} twice in order {order}");
                assert_eq!(distance(order, at), place, "order {order}");
            }
        }
        for place in [0, 1, 12_345_678, u32::MAX] {
            assert_eq!(distance(16, cell(16, place)), place);
        }
    }

    #[test]
    fn neighbours_on_the_line_are_neighbours_in_the_square() {
        for order in 1..=7 {
            for place in 1..1u32 << (2 * order) {
                let ((a, b), (c, d)) = (cell(order, place - 1), cell(order, place));
                assert_eq!(a.abs_diff(c) + b.abs_diff(d), 1, "{place} in order {order}");
            }
        }
    }
}
