//! How much settings of a session may take: each goes to every connection that serves it, and those of a transaction are kept
//! as they were said, for nodes that join later. It does not know what they are.

use exec::ExecError;
use wire::{ErrorFields, sqlstate};

use crate::session::{Result, Session};

/// Bytes of names, values and statements of one session.
pub const MAX: usize = 4 << 20;

/// Bytes that a setting takes.
pub fn size(name: &str, value: &Option<String>) -> usize {
    name.len() + value.as_ref().map_or(0, String::len)
}

impl Session {
    /// # Errors
    /// 53200 if there is no place for so many bytes more.
    pub fn room_for_settings(&self, more: usize) -> Result<()> {
        let lasting: usize = self.settings.iter().map(|(n, v)| n.len() + v.len()).sum();
        let pending: usize = self.pending.iter().map(|p| size(&p.name, &p.value)).sum();
        let all = lasting + pending + self.transaction.settings_bytes() + more;
        if all <= MAX {
            return Ok(());
        }
        let fields = ErrorFields::error(sqlstate::OUT_OF_MEMORY, "out of memory for settings of this session")
            .detail(format!("{all} bytes would be in use, {MAX} are the limit."))
            .hint("Keep large values in a table, or begin another transaction.");
        Err(ExecError::Sql(Box::new(fields)))
    }
}
