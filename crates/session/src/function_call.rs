//! Function call messages, for large objects: libpq (pg_restore, `\lo_import`) and JDBC call their functions so. Large objects
//! live on home. All other functions are called by statements, whose plans know what they read.

use exec::ExecError;
use wire::{Frame, sqlstate};

use crate::session::{Result, Session};
use crate::simple::in_failed_transaction;

/// Object ids of PostgreSQL's lo_* functions (pg_proc.dat), without lo_import and lo_export, which use the server's files.
const LARGE_OBJECTS: [u32; 17] =
    [715, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172, 3457, 3458, 3459, 3460];

impl Session {
    /// Errors are reported here; only a lost client comes back as one.
    pub async fn function_call(&mut self, frame: &Frame) -> Result<()> {
        self.io.begin();
        self.transaction.may_have_written = true;
        let mut called = self.call(frame).await;
        if called.is_ok() {
            called = self.finish_implicit(false).await;
        }
        if let Err(e) = called {
            Box::pin(self.failed(e)).await?;
        }
        self.ready();
        Ok(())
    }

    async fn call(&mut self, frame: &Frame) -> Result<()> {
        let function = frame.body().first_chunk::<4>().map(|id| u32::from_be_bytes(*id));
        if !function.is_some_and(|id| LARGE_OBJECTS.contains(&id)) {
            let message = "the function call protocol is supported for large objects only";
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Use SELECT function(…)."));
        }
        if self.transaction.has_failed() {
            return Err(in_failed_transaction());
        }
        self.newest_epoch().await?;
        self.work().function_call(frame).await
    }
}
