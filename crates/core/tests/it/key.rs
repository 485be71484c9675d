//! Keys (K2, K3, K5), beyond the shared vectors.

use oncekey_core::{Identity, Key, KeyError, KeyFormat, Namespace, RecordId, Scope};
use proptest::prelude::*;

fn parse(sent: &str, format: KeyFormat) -> Result<String, KeyError> {
    Key::parse(sent.as_bytes(), format).map(|key| key.as_str().to_owned())
}

const V4: &str = "2c9a1e9b-4b9e-4d6e-9e67-6e3b2e7c1e32";
const V7: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn each_refusal_says_what_to_change() {
    for (sent, error) in [
        ("", KeyError::Empty),
        (" \t", KeyError::Empty),
        ("\"\"", KeyError::Empty),
        ("a\tb", KeyError::Character),
        ("\u{7f}", KeyError::Character),
        ("a,b", KeyError::Character),
        (",", KeyError::Character),
        ("\"", KeyError::Quoting),
        ("\"a", KeyError::Quoting),
        ("\"a\", \"b\"", KeyError::Quoting),
        ("\"a\";", KeyError::Quoting),
        ("\"a\" ;v=1", KeyError::Quoting),
        ("\"a\";V=1", KeyError::Quoting),
        ("\"é\"", KeyError::Quoting),
        ("é", KeyError::Character),
    ] {
        assert_eq!(parse(sent, KeyFormat::Any), Err(error), "{sent:?}");
    }
    assert_eq!(Key::parse(b"a\xff", KeyFormat::Any), Err(KeyError::Character));
    assert_eq!(parse(&"k".repeat(256), KeyFormat::Any), Err(KeyError::TooLong));
}

#[test]
fn parameters_of_a_quoted_key_are_ignored_and_white_space_around_it_is_trimmed() {
    for sent in ["\"a\"", "\t \"a\" \t", "\"a\";v", "\"a\"; v=\"x,y\";w=?1"] {
        assert_eq!(parse(sent, KeyFormat::Any).as_deref(), Ok("a"), "{sent:?}");
    }
}

#[test]
fn the_length_is_that_of_the_decoded_key() {
    let escaped = format!("\"{}\"", "\\\"".repeat(255));
    assert_eq!(parse(&escaped, KeyFormat::Any), Ok("\"".repeat(255)));
}

#[test]
fn a_uuid_route_takes_hyphenated_uuids_in_either_case_and_spelling_as_one_key() {
    for format in [KeyFormat::Uuid, KeyFormat::Uuid4] {
        for sent in [V4.to_owned(), V4.to_uppercase(), format!("\"{}\"", V4.to_uppercase())] {
            assert_eq!(parse(&sent, format).as_deref(), Ok(V4), "{sent}");
        }
        let (braced, urn, bare) = (format!("{{{V4}}}"), format!("urn:uuid:{V4}"), V4.replace('-', ""));
        let moved = "2c9a1e9b4-b9e-4d6e-9e67-6e3b2e7c1e32";
        for sent in [&braced, &urn, &bare, &V4.replace('c', "g"), moved, &V4[1..], "x"] {
            assert_eq!(parse(sent, format), Err(KeyError::NotUuid), "{sent}");
        }
    }
    assert_eq!(parse(&V4.to_uppercase(), KeyFormat::Any), Ok(V4.to_uppercase()), "other routes know case");
}

#[test]
fn a_uuid4_route_takes_version_4_of_the_standard_variant_only() {
    assert_eq!(parse(V7, KeyFormat::Uuid).as_deref(), Ok(V7));
    assert_eq!(parse(V7, KeyFormat::Uuid4), Err(KeyError::NotUuid));
    let other_variant = V4.replace("-9e67-", "-ce67-");
    assert_eq!(parse(&other_variant, KeyFormat::Uuid), Ok(other_variant.clone()));
    assert_eq!(parse(&other_variant, KeyFormat::Uuid4), Err(KeyError::NotUuid));
}

#[test]
fn debug_output_holds_no_key() {
    let key = Key::parse(b"secret", KeyFormat::Any).unwrap();
    assert_eq!(format!("{key:?}"), "Key(6 characters)");
}

fn identity(namespace: &str, source: &str, scope: &str, key: &str) -> Identity {
    Identity {
        namespace: namespace.parse().unwrap(),
        scope: Scope::new(source, scope).unwrap(),
        key: Key::from_decoded(key).unwrap(),
    }
}

#[test]
fn every_part_of_an_identity_counts_and_none_runs_into_the_next() {
    let identities = [
        identity("n", "header:X-A", "a:b", "c"),
        identity("n", "header:X-A", "a", "b:c"),
        identity("n", "header:X-A", "a:b", "C"),
        identity("m", "header:X-A", "a:b", "c"),
        identity("n", "header:X-B", "a:b", "c"),
        identity("n", "header:X-Aa", ":b", "c"),
    ];
    for (index, one) in identities.iter().enumerate() {
        assert_eq!(one.id(), identities[index].clone().id());
        for other in &identities[..index] {
            assert_ne!(one.id(), other.id());
            assert_ne!(one.forwarded_key(), other.forwarded_key());
        }
    }
}

/// Stores keep records under their ids, so an id never changes. It was worked out apart from this crate.
#[test]
fn an_operation_id_stays_as_it_is_and_is_a_uuid_of_version_8() {
    let id = identity("default", "header:X-Account-Id", "acc-1", "abc").id();
    assert_eq!(id.to_string(), "dae8d47c-b97f-8bc8-bb1a-699e0c5388ee");
    assert_eq!(id.to_string().parse::<RecordId>(), Ok(id));
    assert_eq!(id.to_string().to_uppercase().parse::<RecordId>(), Ok(id));
    for text in [
        "",
        "x",
        "2c9a1e9b4b9e4d6e9e676e3b2e7c1e32",
        "2c9a1e9b-4b9e-4d6e-9e67-6e3b2e7c1e3g",
        "2c9a1e9b-4b9e-4d6e-9e67-6e3b2e7c1e3é",
    ] {
        assert!(text.parse::<RecordId>().is_err(), "{text}");
    }
}

/// Providers remember these, so a forwarded key never changes either. It was worked out apart from this crate.
#[test]
fn a_forwarded_key_stays_as_it_is_and_is_a_uuid_of_version_4_that_the_operation_id_does_not_tell() {
    let identity = identity("default", "header:X-Account-Id", "acc-1", "abc");
    assert_eq!(identity.forwarded_key(), "0461b51f-6dcf-4c20-a31d-d3b5d0381b4e");
}

#[test]
fn an_identity_is_debugged_without_its_scope_and_key() {
    let identity = identity("n", "header:X-A", "acc-77", "secret");
    let debug = format!("{identity:?} {:?}", identity.scope);
    assert!(!debug.contains("acc-77") && !debug.contains("secret"), "{debug}");
}

#[test]
fn a_namespace_is_1_to_64_plain_characters() {
    assert_eq!(Namespace::default().as_str(), "default");
    for text in ["a", "prod.eu_1-b", &"n".repeat(64)] {
        assert_eq!(text.parse::<Namespace>().unwrap().as_str(), text);
    }
    for text in ["", " ", "a b", "a:b", "a/b", "é", &"n".repeat(65)] {
        assert!(text.parse::<Namespace>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_key_reads_the_same_quoted_and_bare(key in "[!-~]{1,255}") {
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        prop_assert_eq!(parse(&quoted, KeyFormat::Any), Ok(key.clone()));
        if !key.contains(',') && !key.starts_with('"') {
            prop_assert_eq!(parse(&key, KeyFormat::Any), Ok(key));
        }
    }

    #[test]
    fn whatever_is_taken_for_a_key_is_one(sent in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(key) = Key::parse(&sent, KeyFormat::Any) {
            prop_assert!((1..=255).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
            prop_assert_eq!(Key::from_decoded(key.as_str()), Ok(key));
        }
    }

    #[test]
    fn an_id_is_read_back_from_its_text_and_its_bytes(bytes in any::<[u8; 16]>(), text in ".{0,40}") {
        let id = RecordId::from_bytes(bytes);
        prop_assert_eq!(id.to_string().parse::<RecordId>(), Ok(id));
        prop_assert_eq!(RecordId::from_bytes(*id.as_bytes()), id);
        if let Ok(id) = text.parse::<RecordId>() {
            prop_assert_eq!(id.to_string(), text.to_lowercase());
        }
    }
}

/// A provider knows it: another one would be another charge.
#[test]
fn a_steps_key_stays_as_it_is_and_is_the_steps_own() {
    let id: RecordId = "0f0e0d0c-0b0a-8908-8706-050403020100".parse().unwrap();
    assert_eq!(id.step_key("charge"), "c691b3c8-a1f8-4c16-abb5-fedca667d969");
    assert_eq!(id.step_key("refund"), "5e752d93-24d1-4818-8800-7d2ca5157ae8");
}
