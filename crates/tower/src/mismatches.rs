//! Which scopes send the same key with another request most (F8), in bounded memory: the scopes that an operator looks at
//! first. Scopes are no labels of metrics, since there is no end to them.

use std::collections::HashMap;
use std::sync::Arc;

use oncekey_core::Scope;
use parking_lot::Mutex;

/// Scopes that are counted at once. Any scope with more than one in so many of all mismatches is among them.
const COUNTED: usize = 256;

/// Counts mismatches by scope. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Mismatches(Arc<Mutex<HashMap<Scope, Count>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    mismatches: u64,
    inherited: u64,
}

/// A scope and its mismatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatching {
    /// The scope.
    pub scope: Scope,
    /// Its mismatches, at least and at most: as many, or fewer by up to `at_most_too_many`.
    pub mismatches: u64,
    /// Those that may be others': of the scope whose place it took.
    pub at_most_too_many: u64,
}

impl Mismatches {
    /// Counts one. When all places are taken, the scope with the fewest gives up its place, and its count with it
    /// (the space-saving algorithm).
    pub(crate) fn note(&self, scope: &Scope) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(scope) {
            count.mismatches += 1;
            return;
        }
        let mut inherited = 0;
        if counts.len() >= COUNTED
            && let Some((fewest, count)) = counts.iter().min_by_key(|(_, count)| count.mismatches)
        {
            inherited = count.mismatches;
            let fewest = fewest.clone();
            counts.remove(&fewest);
        }
        counts.insert(scope.clone(), Count { mismatches: inherited + 1, inherited });
    }

    /// Those with most, at most `limit`, most first.
    pub fn most(&self, limit: usize) -> Vec<Mismatching> {
        let counts = self.0.lock().clone();
        let mut scopes: Vec<_> = counts
            .into_iter()
            .map(|(scope, Count { mismatches, inherited })| Mismatching {
                scope,
                mismatches,
                at_most_too_many: inherited,
            })
            .collect();
        scopes.sort_by(|one, other| {
            other.mismatches.cmp(&one.mismatches).then_with(|| one.scope.value().cmp(other.scope.value()))
        });
        scopes.truncate(limit);
        scopes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(number: usize) -> Scope {
        Scope::new("header:X-Account-Id", &format!("acc-{number:04}")).expect("a scope")
    }

    #[test]
    fn the_heaviest_is_found_among_any_number_of_others() {
        let mismatches = Mismatches::default();
        for number in 0..20_000 {
            mismatches.note(&scope(number));
            if number % 20 == 0 {
                mismatches.note(&scope(7));
            }
        }
        let most = mismatches.most(1000);
        assert_eq!(most.len(), COUNTED);
        let heaviest = &most[0];
        assert_eq!(heaviest.scope, scope(7));
        let truth = 1001;
        assert!(
            heaviest.mismatches >= truth && heaviest.mismatches - heaviest.at_most_too_many <= truth,
            "{heaviest:?}"
        );
    }

    #[test]
    fn few_are_counted_exactly() {
        let mismatches = Mismatches::default();
        for number in [1, 2, 2, 3, 3, 3] {
            mismatches.note(&scope(number));
        }
        let counted: Vec<_> = mismatches.most(2).into_iter().map(|found| (found.scope, found.mismatches)).collect();
        assert_eq!(counted, [(scope(3), 3), (scope(2), 2)]);
    }
}
