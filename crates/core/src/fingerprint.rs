//! When two requests are the same operation (rules F): a SHA-256 over a versioned, length-prefixed encoding of method,
//! path, query, media type, canonical body and named headers.
//!
//! How each part reads the same however a client spells it is decided in files of their own; [`Canonical`] puts the parts in
//! order, can be shown to people, and tells what makes two requests differ. Comparing fingerprints is the engine's work.
//!
//! An encoding never changes, since records keep fingerprints made by it (F9). Whatever must count differently is a new
//! version beside it, chosen by the recipe; a record made under `v1` is compared under `v1`.

mod canonical;
mod coding;
mod difference;
mod encoder;
mod json;
mod media_type;
mod multipart;
mod pairs;
mod pointer;
mod recipe;
mod seed;
mod show;

pub use canonical::{Canonical, Operation};
pub use coding::{Body, TooLarge, decoding_room};
pub use difference::Difference;
pub use pointer::{Pointer, PointerError};
pub use recipe::{Recipe, RecipeError};

/// A fingerprint: the digest, and the recipe it was made by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    digest: [u8; 32],
    recipe: Recipe,
}

impl Fingerprint {
    /// The fingerprint of a request under `recipe`. Takes time linear in the request's size, whatever the body holds (but
    /// for sorting names), and never refuses: judging a body is the upstream's work (F4).
    pub fn of<'a>(operation: &Operation<'a>, recipe: &'a Recipe) -> Self {
        Canonical::of(operation, recipe).fingerprint()
    }

    /// A fingerprint as a store kept it.
    pub const fn from_parts(digest: [u8; 32], recipe: Recipe) -> Self {
        Self { digest, recipe }
    }

    /// The digest.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The recipe.
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}
