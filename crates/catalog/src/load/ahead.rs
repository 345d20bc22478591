//! Asks at once what the last load has asked one by one: a load's questions are nearly always the same, and each would be
//! a round trip. Whoever loads asks as ever and finds the answer here, if it is one of the next; else he is on his own
//! from there on. It does not know what is asked.

use std::collections::VecDeque;

use crate::{CatalogError, Query, Row};

type Answer<E> = Result<Vec<Row>, E>;

pub(super) struct Ahead<'q, Q: Query> {
    q: &'q mut Q,
    /// By their questions.
    answers: VecDeque<(String, Answer<Q::Error>)>,
    /// What this load has asked, for the next one.
    asked: Vec<String>,
}

impl<'q, Q: Query> Ahead<'q, Q> {
    /// `first` is asked before all else; its own answer is not kept.
    pub(super) async fn new(q: &'q mut Q, first: &str, expected: &[String]) -> Result<Self, Q::Error> {
        let texts: Vec<String> = std::iter::once(first.to_string()).chain(expected.iter().cloned()).collect();
        let mut answers: VecDeque<_> = texts.iter().cloned().zip(q.query_all(&texts).await).collect();
        if let Some((_, begun)) = answers.pop_front() {
            begun?;
        }
        Ok(Ahead { q, answers, asked: Vec::new() })
    }

    /// Asks what no other load asks in the same words.
    pub(super) async fn now(&mut self, sql: &str) -> Result<Vec<Row>, CatalogError<Q::Error>> {
        self.q.query(sql).await.map_err(CatalogError::Query)
    }

    pub(super) fn into_asked(self) -> Vec<String> {
        self.asked
    }
}

impl<Q: Query> Query for Ahead<'_, Q> {
    type Error = Q::Error;

    async fn query(&mut self, sql: &str) -> Answer<Q::Error> {
        self.asked.push(sql.to_string());
        // What lies before it the last load needed, and this one does not.
        let at = self.answers.iter().position(|(text, _)| text == sql).unwrap_or(self.answers.len());
        self.answers.drain(..at);
        match self.answers.pop_front() {
            Some((_, answer)) => answer,
            None => self.q.query(sql).await,
        }
    }
}
