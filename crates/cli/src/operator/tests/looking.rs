//! `records list` and `records show`.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use oncekey_store::{Filter, Outcome};
use oncekey_store_test::samples;
use serde_json::{Value, json};

use super::{Session, desk, ended, ends, of_scope};
use crate::exit::Exit;
use crate::operator::{Console, Detail, One, list, show};

#[tokio::test]
async fn a_listing_is_a_table_with_the_newest_claim_first() {
    let desk = desk();
    let first = ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    let second = desk.claimed("acc-22", "key-2").await.identity.id();
    let mut session = Session::default();
    list(desk.store.as_ref(), &Filter::default(), &mut session.console()).await.unwrap();
    let expected = format!(
        "ID                                    STATE       STARTED                      STATUS  ATTEMPTS  REPLAYS  ROUTE    SCOPE   KEY\n\
         {second}  processing  2026-12-01T00:00:00.000000Z  -       1         0        /orders  acc-22  key-2\n\
         {first}  completed   2026-12-01T00:00:00.000000Z  201     1         0        /orders  acc-1   k-1\n"
    );
    assert_eq!(session.out(), expected);
    assert_eq!(session.talk(), "");
}

#[tokio::test]
async fn a_json_listing_is_one_document_however_many_parts_it_took() {
    let desk = desk();
    let mut session = Session::json();
    list(desk.store.as_ref(), &Filter::default(), &mut session.console()).await.unwrap();
    assert_eq!(session.value(), json!({"records": [], "next": null}));

    for number in 0..1001 {
        ended(&desk, "acc-1", &format!("k-{number}"), samples::written_off()).await;
    }
    let mut session = Session::json();
    list(desk.store.as_ref(), &Filter::default(), &mut session.console()).await.unwrap();
    let value = session.value();
    assert_eq!(value["records"].as_array().unwrap().len(), 1001);
    assert_eq!(value["records"][0]["key"], "k-1000");
    assert_eq!(value["records"][1000]["key"], "k-0");
    assert_eq!(value["next"], Value::Null);
}

#[tokio::test]
async fn a_listing_without_records_says_so_beside_the_data() {
    let mut session = Session::default();
    list(desk().store.as_ref(), &Filter::default(), &mut session.console()).await.unwrap();
    assert_eq!((session.out(), session.talk()), ("", "No record matches.\n"));
    let mut session = Session::default();
    let within = Filter { namespace: Some("pay".to_owned()), ..Filter::default() };
    list(desk().store.as_ref(), &within, &mut session.console()).await.unwrap();
    assert_eq!((session.out(), session.talk()), ("", "No record matches in the namespace `pay`.\n"));
}

#[tokio::test]
async fn what_clients_sent_can_not_steer_the_terminal() {
    let desk = desk();
    let scope = "a\u{202e}b\u{200b}<script>é";
    let id = desk.claimed(scope, "k-1").await.identity.id();
    let shown = "a\\u{202e}b\\u{200b}<script>é";
    let mut session = Session::default();
    list(desk.store.as_ref(), &Filter::default(), &mut session.console()).await.unwrap();
    show(desk.store.as_ref(), &One::Id(id), Detail::Record, &mut session.console()).await.unwrap();
    assert_eq!(session.out().matches(shown).count(), 2, "{}", session.out());
    assert!(!session.out().contains('\u{202e}'));

    // Exact in JSON: that is for programs.
    let mut session = Session::json();
    show(desk.store.as_ref(), &One::Id(id), Detail::Record, &mut session.console()).await.unwrap();
    assert_eq!(session.value()["scope"], scope);
}

#[tokio::test]
async fn a_recorded_body_is_shown_on_request_and_harmless() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::completed("one\n\u{1b}[31mtwo\r\n")).await;
    let mut session = Session::default();
    show(desk.store.as_ref(), &One::Id(id), Detail::Record, &mut session.console()).await.unwrap();
    assert!(!session.out().contains("one"));
    assert!(session.out().contains("\nkey              k-1\n"), "{}", session.out());

    let mut session = Session::default();
    show(desk.store.as_ref(), &One::Id(id), Detail::WithResponse, &mut session.console()).await.unwrap();
    let expected = "\n\n201\ncontent-type: text/plain\n\none\n\\u{1b}[31mtwo\\u{d}\n\n";
    assert!(session.out().ends_with(expected), "{}", session.out());

    let mut session = Session::json();
    show(desk.store.as_ref(), &One::Id(id), Detail::WithResponse, &mut session.console()).await.unwrap();
    assert_eq!(session.value()["response"]["body"], "one\n\u{1b}[31mtwo\r\n");
}

#[tokio::test]
async fn binary_bodies_and_missing_responses_are_named_as_such() {
    let desk = desk();
    let response = Some(samples::with_body(Bytes::from_static(b"\xff\x00")));
    let binary = Outcome { event: oncekey_core::Event::Complete, response };
    let cases = [(binary, "\n(base64) /wA=\n"), (samples::written_off(), "\nNo response is recorded.\n")];
    for (number, (outcome, expected)) in cases.into_iter().enumerate() {
        let id = ended(&desk, "acc-1", &format!("k-{number}"), outcome).await;
        let mut session = Session::default();
        show(desk.store.as_ref(), &One::Id(id), Detail::WithResponse, &mut session.console()).await.unwrap();
        assert!(session.out().ends_with(expected), "{}", session.out());
    }
}

#[tokio::test]
async fn a_record_is_found_by_scope_and_key_if_they_name_one() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::failed()).await;
    let named = |key: &str| One::Named(Filter { key: Some(key.to_owned()), ..of_scope("acc-1") });
    let mut session = Session::json();
    show(desk.store.as_ref(), &named("k-1"), Detail::Record, &mut session.console()).await.unwrap();
    assert_eq!(session.value()["id"], id.to_string());

    let absent = show(desk.store.as_ref(), &named("k-2"), Detail::Record, &mut session.console()).await;
    assert_eq!(ends(absent), Exit::Failed);

    let mut other = samples::identity("acc-1", "k-1");
    other.scope = oncekey_core::Scope::new("static", "acc-1").unwrap();
    desk.store.claim(samples::claim(&other, samples::owner())).await.unwrap();
    let both = show(desk.store.as_ref(), &named("k-1"), Detail::Record, &mut session.console()).await.unwrap_err();
    assert_eq!(both.exit(), Exit::Failed);
    assert!(both.to_string().contains(&id.to_string()) && both.to_string().contains(&other.id().to_string()), "{both}");
}

#[tokio::test]
async fn an_expired_record_is_not_shown() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::failed()).await;
    desk.clock.advance(Duration::from_hours(48));
    let mut session = Session::default();
    let result = show(desk.store.as_ref(), &One::Id(id), Detail::Record, &mut session.console()).await;
    assert_eq!((ends(result), session.out()), (Exit::Failed, ""));
}

/// A pipe whose reader has gone after some bytes.
struct Gone(usize);

impl Write for Gone {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let taken = data.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_a_listing_without_complaint() {
    let desk = desk();
    ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    let mut talk = Vec::new();
    let mut console = Console { out: &mut Gone(10), talk: &mut talk, answers: None, json: false };
    assert_eq!(ends(list(desk.store.as_ref(), &Filter::default(), &mut console).await), Exit::Fine);
    assert!(talk.is_empty());
}
