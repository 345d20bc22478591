//! Settings that servers report of themselves (ParameterStatus): what the client was told, and what it is to hear with the next ReadyForQuery. It does not
//! know who sets them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use pool::Alike;

use crate::encoding;

/// What clients were told, which is the same for most.
static TOLD: Alike<BTreeMap<String, String>> = Alike::new();

/// What a client knows of its session's settings.
#[derive(Default)]
pub struct Reports {
    told: Arc<BTreeMap<String, String>>,
    /// The same when the session began.
    began: Arc<BTreeMap<String, String>>,
    /// As nodes have reported them since.
    #[expect(clippy::box_collection, reason = "sessions are many, and most have none")]
    news: Option<Box<BTreeMap<String, String>>>,
}

impl Reports {
    /// Of a session that begins.
    pub fn new(parameters: &[(String, String)]) -> Self {
        let told = TOLD.one(Arc::new(parameters.iter().cloned().collect()));
        Reports { began: told.clone(), told, news: None }
    }

    /// One that the client is to hear of, if it is not what it was told.
    pub fn note(&mut self, name: &str, value: &str) {
        self.news.get_or_insert_default().insert(name.to_string(), value.to_string());
    }

    /// It was told of this one, and of another value, or is about to be.
    pub fn is_other(&self, name: &str, value: &str) -> bool {
        let noted = self.news.as_ref().is_some_and(|news| news.contains_key(name));
        noted || self.told.get(name).is_some_and(|told| told != value)
    }

    /// The session's settings are again what it began with, but for `stay`. A node would say so when it is asked something, to whoever asks first. The
    /// client's character set is noted by who changes it.
    pub fn as_it_began(&mut self, stay: &[&str]) {
        let began = self.began.clone();
        for (name, value) in began.iter().filter(|(n, _)| *n != encoding::NAME && !stay.contains(&n.as_str())) {
            if self.is_other(name, value) {
                self.note(name, value);
            }
        }
    }

    /// What is new, as the client hears it.
    pub fn put(&mut self, out: &mut BytesMut) {
        let Some(news) = self.news.take() else { return };
        for (name, value) in *news {
            if self.told.get(&name) != Some(&value) {
                wire::backend::parameter_status(out, &name, &value);
                Arc::make_mut(&mut self.told).insert(name, value);
            }
        }
        self.told = TOLD.one(self.told.clone());
    }
}
