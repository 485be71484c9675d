//! Bodies under content codings (F6): one request however it is compressed, and never at a price.

use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use oncekey_core::Recipe;
use oncekey_core::fingerprint::{Body, Canonical, Operation, TooLarge, decoding_room};
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::fingerprint::{JSON, headers, of, of_body};

/// `[1, "a", …]`, by the encoders of others: `br` by Node's zlib, `zstd` by the command of that name with a checksum.
const BROTLI: &str = "1bc20100444f96aa3d2bb46a827d9a91c1069c70a01a59688bc259546bc35450b0b7ec4f7a76fe5feca227";
const ZSTD: &str =
    "28b52ffd64c3002d0100f05b312c202261222c20226f6e636520616e64206f6e6c79206f6e6365325d010088a63a9d7efe1f3a";

/// 64 MiB of zeros.
const BROTLI_BOMB: &str =
    "cfffff7f002400e2b14072effff9ffff0f8004401c1680eefd3fffffff01900088c302d0bdffcfffff7f001200715800baf7ff";

fn text() -> String {
    format!("[1, \"a\", {}2]", "\"once and only once\", ".repeat(20))
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A body in a coding. `br` is stored uncompressed: this crate has no encoder for it.
fn encode(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" | "x-gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "br" => brotli_stored(body),
        "zstd" => compress_to_vec(body, CompressionLevel::Fastest),
        other => panic!("{other} is no coding of these tests"),
    }
}

/// Window bits 16 (`0`), metablocks of up to 64 KiB that hold bytes as they are, and an empty last one.
fn brotli_stored(body: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    for (index, piece) in body.chunks(1 << 16).enumerate() {
        let length = u32::try_from(piece.len() - 1).unwrap();
        // ISLAST 0, MNIBBLES 4, length in 16 bits, ISUNCOMPRESSED 1, then up to a whole byte; before the first, the window.
        let header = length << 3 | 1 << 19;
        let header = if index == 0 { header << 1 } else { header };
        stored.extend_from_slice(&header.to_le_bytes()[..3]);
        stored.extend_from_slice(piece);
    }
    // ISLAST and ISLASTEMPTY, after the window where nothing came before.
    stored.push(if body.is_empty() { 0b110 } else { 0b11 });
    stored
}

fn encoded(coding: &'static str) -> [(&'static str, &'static str); 2] {
    [JSON, ("content-encoding", coding)]
}

fn decode(coding: &'static str, body: &[u8], max: u64) -> Result<(), TooLarge> {
    Body::decode(&headers(&encoded(coding)), body, max).map(|_| ())
}

/// Whether a body decodes to `plain`, and not just to itself.
fn decodes_to(coding: &'static str, body: &[u8], plain: &str) -> bool {
    of(&encoded(coding), body, &Recipe::default()) == of_body(&[JSON], plain)
}

#[test]
fn a_request_is_the_same_under_each_coding() {
    let plain = text();
    for coding in ["gzip", "x-gzip", "deflate", "br", "zstd"] {
        assert!(decodes_to(coding, &encode(coding, plain.as_bytes()), &plain), "{coding}");
    }
    assert!(decodes_to("GZip", &encode("gzip", plain.as_bytes()), &plain));
    assert!(decodes_to("br", &unhex(BROTLI), &plain));
    assert!(decodes_to("zstd", &unhex(ZSTD), &plain));
}

#[test]
fn bare_deflate_is_taken_too() {
    let plain = text();
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_bytes()).unwrap();
    assert!(decodes_to("deflate", &encoder.finish().unwrap(), &plain));
}

#[test]
fn several_codings_are_taken_off_in_turn() {
    let plain = text();
    let twice = encode("br", &encode("gzip", plain.as_bytes()));
    assert!(decodes_to("gzip, br", &twice, &plain));
    assert!(decodes_to("identity, gzip,,identity ,br", &twice, &plain));
    assert!(!decodes_to("br, gzip", &twice, &plain));
    let lines = [JSON, ("content-encoding", "gzip"), ("content-encoding", "br")];
    assert_eq!(of(&lines, &twice, &Recipe::default()), of_body(&[JSON], &plain));
    let four = (0..4).fold(plain.clone().into_bytes(), |body, _| encode("gzip", &body));
    assert!(decodes_to("gzip,gzip,gzip,gzip", &four, &plain));
    assert!(!decodes_to("gzip,gzip,gzip,gzip,gzip", &encode("gzip", &four), &plain), "more than anyone sends");
}

/// Decoders that stop after the first one see another request in the same bytes.
#[test]
fn more_than_one_gzip_member_or_zstd_frame_is_raw() {
    let plain = text();
    let (start, end) = plain.as_bytes().split_at(100);
    for coding in ["gzip", "zstd"] {
        let [start, end, empty] = [start, end, b""].map(|piece| encode(coding, piece));
        let whole = encode(coding, plain.as_bytes());
        for sent in [[start, end].concat(), [whole.clone(), empty.clone()].concat(), [empty, whole].concat()] {
            assert!(is_raw(coding, &sent), "{coding}");
        }
    }
    let skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc";
    assert!(is_raw("zstd", &[skippable, unhex(ZSTD).as_slice()].concat()));
    assert!(is_raw("zstd", &[unhex(ZSTD).as_slice(), skippable].concat()));
}

/// Who knows a coding that is unknown here, or reads damaged bodies, reads each of these as another one.
#[test]
fn bytes_that_do_not_decode_are_another_request_under_another_coding() {
    let plain = [("content-type", "text/plain")];
    let of = |coding| of(&[plain[0], ("content-encoding", coding)], b"amount=1", &Recipe::default());
    let all = ["gzip", "br", "unheard-of", "unheard-of, gzip"].map(of);
    for (index, one) in all.iter().enumerate() {
        assert_ne!(*one, of_body(&plain, "amount=1"));
        assert!(all[..index].iter().all(|other| one != other), "{index}");
    }
    assert_eq!(all[0], of("gzip"));
}

#[test]
fn what_is_cut_short_or_followed_by_anything_is_raw() {
    let plain = text();
    let bodies = [
        ("gzip", encode("gzip", plain.as_bytes())),
        ("deflate", encode("deflate", plain.as_bytes())),
        ("br", unhex(BROTLI)),
        ("zstd", unhex(ZSTD)),
    ];
    for (coding, body) in bodies {
        assert!(decodes_to(coding, &body, &plain));
        for rest in [&b"\0"[..], b"x", b"\r\n", b"\x1f\x8b"] {
            let longer = [&body[..], rest].concat();
            assert!(is_raw(coding, &longer), "{coding} and {rest:?}");
        }
        for length in 0..body.len() {
            assert!(is_raw(coding, &body[..length]), "{coding} {length}");
        }
    }
}

/// Whether a body that says JSON counts as the very bytes that were sent.
fn is_raw(coding: &'static str, body: &[u8]) -> bool {
    let (headers, recipe) = (headers(&encoded(coding)), Recipe::default());
    let decoded = Body::decode(&headers, body, 1 << 20).unwrap();
    let operation =
        Operation { method: &http::Method::POST, path: "/", query: None, headers: &headers, body: &decoded };
    Canonical::of(&operation, &recipe).to_string().contains("content-encoding")
}

#[test]
fn a_wrong_checksum_or_size_is_raw() {
    let plain = text();
    let damage = |mut body: Vec<u8>, from_end: usize| {
        let at = body.len() - from_end;
        body[at] ^= 1;
        body
    };
    for (coding, body) in [
        ("gzip", damage(encode("gzip", plain.as_bytes()), 1)),
        ("gzip", damage(encode("gzip", plain.as_bytes()), 8)),
        ("deflate", damage(encode("deflate", plain.as_bytes()), 1)),
        ("zstd", damage(unhex(ZSTD), 1)),
        ("zstd", {
            let mut body = unhex(ZSTD);
            body[5] ^= 1;
            body
        }),
    ] {
        assert!(is_raw(coding, &body), "{coding}");
    }
}

#[test]
fn a_decoded_body_may_be_as_large_as_it_may_be_and_no_larger() {
    let body = vec![b' '; 300_000];
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let sent = encode(coding, &body);
        assert_eq!(decode(coding, &sent, 300_000), Ok(()), "{coding}");
        assert_eq!(decode(coding, &sent, 299_999), Err(TooLarge), "{coding}");
        assert_eq!(decode(coding, &sent, 0), Err(TooLarge), "{coding}");
        assert_eq!(decode(coding, &encode(coding, b""), 0), Ok(()), "{coding}");
    }
}

/// Each of these says that it holds far more than memory has; only what is allowed is ever decoded.
#[test]
fn bombs_are_too_large_and_cost_no_more_than_is_allowed() {
    let zeros = vec![0; 1 << 20];
    let gzip = encode("gzip", &zeros.repeat(100));
    assert_eq!(decode("gzip", &gzip, 1 << 20), Err(TooLarge));
    assert_eq!(decode("br", &unhex(BROTLI_BOMB), 1 << 20), Err(TooLarge));
    // One frame without a size: a window of 1 GiB, then blocks that each repeat a byte 128 KiB times, without an end.
    let block = ((1u32 << 17) << 3 | 1 << 1).to_le_bytes();
    let blocks = [&block[..3], b"x"].concat().repeat(200_000);
    let zstd = [&b"\x28\xb5\x2f\xfd\x00\xa0"[..], &blocks].concat();
    assert_eq!(decode("zstd", &zstd, 1 << 20), Err(TooLarge));
    // Each layer alone is bounded: what is small in the end may not be large on the way.
    let mut long = GzBuilder::new().comment(vec![b'a'; 2 << 20]).write(Vec::new(), Compression::default());
    long.write_all(b"small").unwrap();
    let nested = encode("gzip", &long.finish().unwrap());
    assert!(nested.len() < 1 << 16);
    assert_eq!(decode("gzip, gzip", &nested, 1 << 20), Err(TooLarge));
}

#[test]
fn only_codings_other_than_identity_take_room() {
    let sizes = [("", 0), ("identity", 0), ("gzip", 7), ("identity, br", 7), ("gzip, br", 14), ("zstd", 14), ("x", 14)];
    for (coding, expected) in sizes {
        assert_eq!(decoding_room(&headers(&encoded(coding)), 7), expected, "{coding}");
    }
    assert_eq!(decoding_room(&headers(&[JSON]), 7), 0);
}

proptest! {
    #[test]
    fn any_body_is_one_request_under_all_codings(
        body in prop::collection::vec(prop_oneof![4 => Just(b'a'), 1 => any::<u8>()], 0..3000),
        codings in prop::collection::vec(prop::sample::select(vec!["gzip", "deflate", "br", "zstd"]), 1..4)
    ) {
        let sent = codings.iter().fold(body.clone(), |body, coding| encode(coding, &body));
        let mut fields = headers(&[]);
        fields.insert("content-encoding", codings.join(", ").parse().unwrap());
        let decoded = Body::decode(&fields, &sent, 1 << 20).unwrap();
        let operation = |headers, body| Operation {
            method: &http::Method::POST, path: "/", query: None, headers, body,
        };
        let plain_headers = headers(&[]);
        let plain = Body::decode(&plain_headers, &body, 1 << 20).unwrap();
        let recipe = Recipe::default();
        prop_assert_eq!(
            oncekey_core::Fingerprint::of(&operation(&fields, &decoded), &recipe),
            oncekey_core::Fingerprint::of(&operation(&plain_headers, &plain), &recipe)
        );
    }

    #[test]
    fn damaged_bodies_never_panic(
        coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd"]), fixture in any::<bool>(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>()
    ) {
        let mut body = match (coding, fixture) {
            ("br", true) => unhex(BROTLI),
            ("zstd", true) => unhex(ZSTD),
            (coding, _) => encode(coding, text().as_bytes()),
        };
        for (at, byte) in damages {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = decode(coding, &body, 1 << 16);
        let _ = decode(coding, &body[..cut.index(body.len())], 1 << 16);
    }
}
