//! Where a simulation's decisions come from: every combination in turn, or a seed.

/// A source of decisions.
#[derive(Clone, Debug)]
pub(crate) enum Choices {
    /// Every combination, one per run: a counter whose digits have the bases that the runs ask for.
    Every {
        /// What was decided in this run, and among how many.
        path: Vec<(usize, usize)>,
        /// How much of the path this run has used.
        at: usize,
    },
    /// Pseudo-random decisions.
    Seeded(u64),
}

impl Choices {
    /// Starts with the first of all combinations.
    pub(crate) fn every() -> Self {
        Choices::Every { path: Vec::new(), at: 0 }
    }

    /// Decisions that a seed fixes.
    pub(crate) fn seeded(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        Choices::Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Whether every combination has its turn.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Choices::Every { .. })
    }

    /// Decides among `among` options.
    pub(crate) fn pick(&mut self, among: usize) -> usize {
        assert!(among > 0, "a decision among nothing");
        match self {
            Choices::Every { path, at } => {
                if *at == path.len() {
                    path.push((0, among));
                }
                let (decided, base) = path[*at];
                assert_eq!(base, among, "a run that is repeated must ask the same questions");
                *at += 1;
                decided
            }
            Choices::Seeded(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                let range = u64::try_from(among).expect("few options");
                usize::try_from((*state >> 16) % range).expect("less than `among`")
            }
        }
    }

    /// Decides among options of which the first is the usual one: a seed takes it mostly.
    pub(crate) fn pick_rarely(&mut self, among: usize) -> usize {
        if matches!(self, Choices::Seeded(_)) && self.pick(12) > 0 {
            return 0;
        }
        self.pick(among)
    }

    /// Moves on to the next combination. False: this was the last.
    pub(crate) fn advance(&mut self) -> bool {
        let Choices::Every { path, at } = self else {
            return false;
        };
        *at = 0;
        while let Some((decided, among)) = path.pop() {
            if decided + 1 < among {
                path.push((decided + 1, among));
                return true;
            }
        }
        false
    }
}
