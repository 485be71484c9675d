//! Random tokens and owner ids.

/// 128 random bits from the operating system.
///
/// # Panics
/// Without randomness no claim can be told from another; there is nothing safe to do but to stop.
pub(crate) fn bits() -> [u8; 16] {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system provides randomness");
    bits
}
