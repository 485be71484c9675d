//! The canonical spelling of a decimal number (F3): exact, and never expanded.

use std::fmt::Write;

/// Appends the number `whole.fraction` times ten to the `exponent`: its digits without zeros at either end, then `e` and the
/// exponent of the last of them unless that is 0; any zero is `0`. `None` if the exponent leaves 64 bits, which the caller
/// treats like one that was written so (F4).
pub(super) fn write(negative: bool, [whole, fraction]: [&str; 2], exponent: i64, text: &mut String) -> Option<()> {
    let digits = whole.chars().chain(fraction.chars()).skip_while(|digit| *digit == '0');
    if digits.clone().next().is_none() {
        text.push('0');
        return Some(());
    }
    if negative {
        text.push('-');
    }
    text.extend(digits);
    let significant = text.trim_end_matches('0').len();
    let trailing_zeros = text.len() - significant;
    text.truncate(significant);
    // No sum of three 64-bit numbers leaves 128 bits. Only the result has to fit: 1.0e9223372036854775807 does.
    let exponent = i128::from(exponent) + trailing_zeros as i128 - fraction.len() as i128;
    match i64::try_from(exponent).ok()? {
        0 => Some(()),
        exponent => write!(text, "e{exponent}").ok(),
    }
}
