//! The canonical form of a request: what its fingerprint is the digest of, and what goes into it in which order (F1).

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::Fingerprint;
use super::coding::Body;
use super::encoder::Encoder;
use super::json::Document;
use super::media_type::MediaType;
use super::multipart::{self, Part};
use super::pairs::{Pairs, by_list, by_name};
use super::recipe::{Encoding, Recipe};
use super::seed;

/// What of a request goes into its fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path as sent, still percent-encoded.
    pub path: &'a str,
    /// The query as sent, without its `?`.
    pub query: Option<&'a str>,
    /// The request's fields; the media type and the recipe's headers are read from them.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a Body<'a>,
}

/// A request in the one form that all its spellings have. Two requests are the same operation exactly if their canonical
/// forms under one recipe are equal.
#[derive(Debug)]
pub struct Canonical<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) query: Pairs,
    pub(super) media_type: MediaType<'a>,
    pub(super) content: Content<'a>,
    /// All lines of each of the recipe's headers, in their order.
    pub(super) headers: Vec<(&'a HeaderName, Vec<&'a [u8]>)>,
    /// Under the seed's recipe its digest, which is none of this form; the form is then what people are shown.
    seed: Option<[u8; 32]>,
}

/// A body, as it was read by its media type.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// By none, or it didn't read as what it says it is.
    Raw(Raw<'a>),
    Json(Document),
    Form(Pairs),
    Multipart(Vec<Part<'a>>),
}

/// Bytes, and the fields by which somebody may read them who understands more. The same bytes say another thing by another
/// coding or another boundary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    /// All lines of `Content-Encoding`, if the bytes are still under it.
    pub(super) codings: Vec<&'a [u8]>,
    /// The whole `Content-Type` of a multipart body.
    pub(super) content_type: Option<&'a [u8]>,
}

impl<'a> Canonical<'a> {
    /// The form of a request under `recipe`. Takes time linear in the request's size, whatever the body holds (but for
    /// sorting names), and never refuses: judging a body is the upstream's work (F4).
    pub fn of(operation: &Operation<'a>, recipe: &'a Recipe) -> Self {
        let media_type = MediaType::of(operation.headers);
        let query = operation.query.unwrap_or_default().as_bytes();
        let (query, content) = match recipe.encoding {
            Encoding::V1 => (Pairs::read(query, by_name), content_v1(operation, &media_type)),
            Encoding::V2 | Encoding::Seed(_) => {
                (Pairs::read(query, by_list), content_v2(operation, &media_type, recipe))
            }
        };
        let seed = match &recipe.encoding {
            Encoding::Seed(sought) => Some(seed::digest(operation, sought)),
            Encoding::V1 | Encoding::V2 => None,
        };
        Self {
            recipe,
            method: operation.method,
            path: operation.path,
            query,
            media_type,
            content,
            headers: recipe.headers.iter().map(|name| (name, lines(operation, name))).collect(),
            seed,
        }
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        if let Some(digest) = self.seed {
            return Fingerprint::from_parts(digest, self.recipe.clone());
        }
        let mut encoder = Encoder::new(match self.recipe.encoding {
            Encoding::V1 => "oncekey/fingerprint/v1",
            Encoding::V2 | Encoding::Seed(_) => "oncekey/fingerprint/v2",
        });
        encoder.bytes(self.method.as_str().as_bytes());
        encoder.bytes(self.path.as_bytes());
        encode_pairs(&self.query, &mut encoder);
        encode_media_type(&self.media_type, &mut encoder);
        encode_content(&self.content, &mut encoder);
        for (name, lines) in &self.headers {
            encoder.bytes(name.as_str().as_bytes());
            // A count goes first: no line is not an empty line.
            encoder.list(lines);
        }
        Fingerprint::from_parts(encoder.finish(), self.recipe.clone())
    }
}

fn content_v1<'a>(operation: &Operation<'a>, media_type: &MediaType<'_>) -> Content<'a> {
    let readable = media_type.is_json() && !operation.body.is_encoded();
    let document = readable.then(|| Document::read(operation.body.sent(), &[])).flatten();
    document.map_or(Content::Raw(Raw { bytes: operation.body.sent(), ..Raw::default() }), Content::Json)
}

fn content_v2<'a>(operation: &Operation<'a>, media_type: &MediaType<'_>, recipe: &Recipe) -> Content<'a> {
    let multipart = media_type.is_multipart().then(|| operation.headers.get(CONTENT_TYPE)).flatten();
    let content_type = multipart.map(HeaderValue::as_bytes);
    let Some(body) = operation.body.plain() else {
        return Content::Raw(Raw {
            bytes: operation.body.sent(),
            codings: lines(operation, &CONTENT_ENCODING),
            content_type,
        });
    };
    let read = if media_type.is_json() {
        Document::read(body, &recipe.ignore).map(Content::Json)
    } else if media_type.is("application/x-www-form-urlencoded") {
        Some(Content::Form(Pairs::read(body, by_list)))
    } else if media_type.is("multipart/form-data") {
        content_type.and_then(|content_type| multipart::parts(content_type, body)).map(Content::Multipart)
    } else {
        None
    };
    read.unwrap_or(Content::Raw(Raw { bytes: body, codings: Vec::new(), content_type }))
}

fn lines<'a>(operation: &Operation<'a>, name: &HeaderName) -> Vec<&'a [u8]> {
    operation.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

fn encode_pairs(pairs: &Pairs, encoder: &mut Encoder) {
    encoder.count(pairs.len());
    for (name, value) in pairs.iter() {
        encoder.bytes(name);
        encoder.bytes(value);
    }
}

/// An absent, an empty and a repeated `Content-Type` are three different things, and none is any media type.
fn encode_media_type(media_type: &MediaType<'_>, encoder: &mut Encoder) {
    match media_type {
        MediaType::Absent => encoder.tag(0),
        MediaType::One(essence) => {
            encoder.tag(1);
            encoder.bytes(essence);
        }
        MediaType::Repeated(lines) => {
            encoder.tag(2);
            encoder.list(lines);
        }
    }
}

/// Each kind of body has a tag, so that a raw body which happens to look like another one's canonical form is not taken for
/// it.
fn encode_content(content: &Content<'_>, encoder: &mut Encoder) {
    match content {
        Content::Raw(Raw { bytes, codings, content_type }) => {
            let is_plain = codings.is_empty() && content_type.is_none();
            encoder.tag(if is_plain { 0 } else { 4 });
            if !is_plain {
                encoder.list(codings);
                encoder.list(content_type.as_slice());
            }
            encoder.bytes(bytes);
        }
        Content::Json(document) => {
            encoder.tag(1);
            encoder.bytes(document.form().as_bytes());
        }
        Content::Form(pairs) => {
            encoder.tag(2);
            encode_pairs(pairs, encoder);
        }
        Content::Multipart(parts) => {
            encoder.tag(3);
            encoder.count(parts.len());
            for part in parts {
                encode_part(part, encoder);
            }
        }
    }
}

fn encode_part(part: &Part<'_>, encoder: &mut Encoder) {
    encoder.bytes(part.name);
    encoder.count(part.parameters.len());
    for (name, value) in &part.parameters {
        encoder.bytes(name);
        encoder.bytes(value);
    }
    encoder.list(part.media_type.as_deref().as_slice());
    encoder.bytes(part.content);
}
