//! What prepared statements may take of the router's memory. It does not know what statements are: their texts' lengths tell.

use exec::{Allowance, Budget, ExecError, Purpose, Taken};
use wire::backend::Field;
use wire::{ErrorFields, sqlstate};

/// A statement takes so many times its text: the text itself, its tree or plan with texts of its own (measured: 4).
const TIMES: usize = 4;
/// What it takes besides.
const LEAST: usize = 1 << 10;

const PURPOSE: Purpose = Purpose {
    name: "prepared statements",
    advice: "Deallocate statements that are no longer used",
    limit: "prepared_bytes",
};

/// For the prepared statements of a router.
pub fn for_statements(session_max: usize, all_max: usize) -> Budget {
    Budget::new(PURPOSE, session_max, all_max)
}

/// For a statement of so long a text.
///
/// # Errors
/// 54000 if it is too long for any session, 53200 if others take the place.
pub fn take(allowance: &Allowance, text: usize) -> Result<Taken, ExecError> {
    let bytes = text.saturating_mul(TIMES).saturating_add(LEAST);
    let max = allowance.budget().session_max();
    if bytes > max {
        let fields = ErrorFields::error(sqlstate::PROGRAM_LIMIT_EXCEEDED, "statement is too long to be prepared")
            .detail(format!("{bytes} bytes would be in use, {max} are the limit."))
            .hint(format!("Raise limits.{}_per_session in herd.toml.", PURPOSE.limit));
        return Err(ExecError::Sql(Box::new(fields)));
    }
    allowance.take(bytes)
}

/// What is kept of a statement besides its text: what its columns and parameters are. That of few is in what each takes.
///
/// # Errors
/// As [`take`].
pub fn grow(taken: &mut Taken, fields: Option<&[Field]>, parameters: usize) -> Result<(), ExecError> {
    let fields = fields.unwrap_or_default().iter().map(|field| size_of::<Field>() + field.name.capacity());
    match fields.sum::<usize>() + parameters * size_of::<u32>() {
        ..LEAST => Ok(()),
        bytes => taken.grow_to(taken.bytes() + bytes),
    }
}

/// Texts that the router puts into one statement, each as often as the statement names it, are so long together at most.
const PUT_TOGETHER_MAX: usize = 32 << 20;

/// `once`: what they would take if each were named once, which makes no statement longer than what it is made of.
///
/// # Errors
/// 54000: a short statement would become a very long one.
pub fn put_together(bytes: usize, once: usize) -> Result<(), ExecError> {
    if bytes <= PUT_TOGETHER_MAX.max(once) {
        return Ok(());
    }
    let fields =
        ErrorFields::error(sqlstate::PROGRAM_LIMIT_EXCEEDED, "statement is too long once values are in their places")
            .detail(format!("{bytes} bytes would be put into it, {PUT_TOGETHER_MAX} are the limit."))
            .hint("Name long values once, or send them as parameters of the extended protocol.");
    Err(ExecError::Sql(Box::new(fields)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn one_that_is_too_long_for_anybody_is_told_apart() {
        let one = Allowance::of(&Arc::new(for_statements(100_000, 150_000)));
        let code = |taken: Result<Taken, ExecError>| taken.err().map(|e| e.code().to_string());
        assert_eq!(code(take(&one, 50_000)).as_deref(), Some("54000"));
        let _first = take(&one, 20_000).unwrap();
        assert_eq!(code(take(&one, 10_000)).as_deref(), Some("53200"));
    }
}
