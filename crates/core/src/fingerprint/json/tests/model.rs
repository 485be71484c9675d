//! A model of JSON values in which equality is what rule F3 says it is, and renderings of it that differ in everything that
//! must not count.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;

/// A value. Derived equality is equality of what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Model {
    Null,
    Bool(bool),
    /// The digits, without zeros at either end and with a minus before a negative number, times ten to the exponent. Zero
    /// is no digits and exponent 0.
    Number(String, i64),
    String(String),
    Array(Vec<Model>),
    Object(BTreeMap<String, Model>),
}

/// Small alphabets, so that equal and nearly equal values are common.
pub(super) fn model() -> impl Strategy<Value = Model> {
    let number = ("-?[1-9]|-?[1-9][0-9]{0,30}[1-9]", prop_oneof![-3..4i64, any::<i32>().prop_map(i64::from)]);
    let scalar = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        Just(Model::Number(String::new(), 0)),
        number.prop_map(|(digits, exponent)| Model::Number(digits, exponent)),
        text().prop_map(Model::String),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Model::Array),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(Model::Object),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-c\\\\\"\\n/é😀\u{301}]{0,3}", 1 => any::<String>()]
}

/// A source of choices that a seed determines, so that a failing case can be repeated.
pub(super) struct Choices(u64);

impl Choices {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound` (splitmix64).
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// `value` with one thing in it changed.
pub(super) fn changed(value: &Model, choices: &mut Choices) -> Model {
    match value {
        Model::Null => Model::Bool(false),
        Model::Bool(value) => Model::Bool(!value),
        Model::Number(digits, _) if digits.is_empty() => Model::String(String::new()),
        Model::Number(digits, exponent) if choices.below(2) == 0 => Model::Number(digits.clone(), exponent + 1),
        Model::Number(digits, exponent) => Model::Number(format!("{digits}1"), *exponent),
        Model::String(text) => Model::String(format!("{text} ")),
        Model::Array(values) if values.is_empty() => Model::Object(BTreeMap::new()),
        Model::Array(values) => {
            let mut values = values.clone();
            let at = choices.below(values.len());
            match choices.below(3) {
                0 => drop(values.remove(at)),
                1 => values[at] = Model::Array(vec![values[at].clone()]),
                _ => values[at] = changed(&values[at], choices),
            }
            Model::Array(values)
        }
        Model::Object(members) if members.is_empty() => Model::Null,
        Model::Object(members) => {
            let mut members = members.clone();
            let name = members.keys().nth(choices.below(members.len())).unwrap().clone();
            let value = members.remove(&name).unwrap();
            match choices.below(3) {
                0 => {}
                1 => drop(members.insert(format!("{name}~"), value)),
                _ => drop(members.insert(name, changed(&value, choices))),
            }
            Model::Object(members)
        }
    }
}

/// `value` as JSON text, with white space, escapes, member order and number spellings as chosen.
pub(super) fn render(value: &Model, choices: &mut Choices) -> String {
    let body = match value {
        Model::Null => "null".to_owned(),
        Model::Bool(value) => value.to_string(),
        Model::Number(digits, exponent) => render_number(digits, *exponent, choices),
        Model::String(text) => render_string(text, choices),
        Model::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| render(value, choices)).collect();
            format!("[{}{}]", blank(choices), values.join(","))
        }
        Model::Object(members) => {
            let mut rendered = Vec::new();
            for (name, value) in members {
                let name = render_string(name, choices);
                let member = format!("{}{name}{}:{}", blank(choices), blank(choices), render(value, choices));
                rendered.insert(choices.below(rendered.len() + 1), member);
            }
            format!("{{{}{}}}", blank(choices), rendered.join(","))
        }
    };
    format!("{}{body}{}", blank(choices), blank(choices))
}

fn blank(choices: &mut Choices) -> &'static str {
    ["", "", "", " ", "\t", "\r\n", "  "][choices.below(7)]
}

fn render_string(text: &str, choices: &mut Choices) -> String {
    let mut rendered = String::from('"');
    for character in text.chars() {
        let short = "\"\\/\u{8}\u{c}\n\r\t".chars().zip("\"\\/bfnrt".chars()).find(|(plain, _)| *plain == character);
        let must_escape = character < ' ' || character == '"' || character == '\\';
        match (choices.below(3), short) {
            (0, Some((_, letter))) => rendered.extend(['\\', letter]),
            (1, _) if !must_escape => rendered.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    let digits = if choices.below(2) == 0 { digits } else { digits.to_uppercase() };
                    write!(rendered, "\\u{digits}").unwrap();
                }
            }
        }
    }
    rendered + "\""
}

/// Moves the point to anywhere within or before the digits, adds zeros that change nothing, and makes up for it in the
/// exponent.
fn render_number(digits: &str, exponent: i64, choices: &mut Choices) -> String {
    if digits.is_empty() {
        return ["0", "-0", "0.0", "0e7", "-0.000E-12"][choices.below(5)].to_owned();
    }
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let zeros = |choices: &mut Choices| "0".repeat(choices.below(4));
    let padding = zeros(choices);
    let digits = format!("{digits}{padding}");
    let (whole, fraction) = match choices.below(digits.len() + 1) {
        0 => ("0".to_owned(), format!("{}{digits}", zeros(choices))),
        point => (digits[..point].to_owned(), digits[point..].to_owned()),
    };
    let exponent = exponent - i64::try_from(padding.len()).unwrap() + i64::try_from(fraction.len()).unwrap();
    let mut rendered = format!("{sign}{whole}");
    if !fraction.is_empty() {
        write!(rendered, ".{fraction}").unwrap();
    }
    if exponent != 0 || choices.below(2) == 0 {
        let (sign, size) = if exponent < 0 { ("-", -exponent) } else { (["", "+"][choices.below(2)], exponent) };
        write!(rendered, "{}{sign}{}{size}", ["e", "E"][choices.below(2)], zeros(choices)).unwrap();
    }
    rendered
}
