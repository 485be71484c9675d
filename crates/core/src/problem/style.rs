//! How problems are given: under which statuses (profiles), and what their `type` begins with. Which status a code has is
//! chosen in `code`.

use http::StatusCode;

use super::code::Code;

/// What stands before the code in a problem's `type`, unless `problem_type_base` replaces it.
pub const TYPE_BASE: &str = "urn:oncekey:problem:";

/// Whose conventions the statuses of problems follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// This protocol's own.
    #[default]
    Default,
    /// Those of the IETF's draft on the `Idempotency-Key` field.
    Ietf,
    /// Those of Stripe's API.
    Stripe,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Default, Self::Ietf, Self::Stripe];

    /// The name used in configuration and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Ietf => "ietf",
            Self::Stripe => "stripe",
        }
    }

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// How the problems of a route are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Which statuses they have.
    pub profile: Profile,
    /// The status of `in-progress`, which a route may set by itself: 202, 409, 423 or 425 (W2).
    pub in_progress: StatusCode,
    /// What their `type` begins with; the code follows.
    pub type_base: String,
}

impl Style {
    /// A profile's own.
    pub fn of(profile: Profile) -> Self {
        Self { profile, in_progress: Code::InProgress.status(profile), type_base: TYPE_BASE.to_owned() }
    }

    /// The HTTP status of a code.
    pub fn status(&self, code: Code) -> StatusCode {
        if code == Code::InProgress { self.in_progress } else { code.status(self.profile) }
    }

    /// Whether a code is given as the 202 of W2, which is no problem to a client but an answer to wait on.
    pub(super) fn is_acceptance(&self, code: Code) -> bool {
        code == Code::InProgress && self.in_progress == StatusCode::ACCEPTED
    }
}

impl Default for Style {
    /// That of the profile `default`.
    fn default() -> Self {
        Self::of(Profile::Default)
    }
}
