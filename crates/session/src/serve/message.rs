//! One message of the client, by either protocol, and the end of a session: what is told whom. How messages come is not known here.

use exec::{ClientError, ExecError};
use wire::sqlstate;
use wire::{ErrorFields, Frame};

use crate::session::{Result, Session, Turn};

impl Session {
    pub(crate) async fn message(&mut self, frame: &Frame) -> Result<()> {
        match frame.tag() {
            b'Q' => {
                self.io.begin();
                let sql = match wire::frontend::query(frame.body()) {
                    Ok(sql) => sql,
                    Err(e) => {
                        let e = match std::str::from_utf8(frame.body()) {
                            Err(broken) => crate::values::encoding_error(&frame.body()[broken.valid_up_to()..]),
                            Ok(_) => ExecError::sql(sqlstate::PROTOCOL_VIOLATION, e.to_string()),
                        };
                        Box::pin(self.failed(e)).await?;
                        self.ready();
                        return Ok(());
                    }
                };
                self.shown.begin(sql);
                self.query(sql).await
            }
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                if matches!(frame.tag(), b'P' | b'E') {
                    self.io.begin();
                }
                self.turn = Turn::Open;
                if let Err(e) = self.extended(frame).await {
                    Box::pin(self.failed(e)).await?;
                    self.turn = Turn::Skipping;
                }
                Ok(())
            }
            b'H' => self.io.send().await,
            b'S' => {
                self.turn = Turn::Open;
                if !frame.body().is_empty() {
                    self.failed(ExecError::sql(sqlstate::PROTOCOL_VIOLATION, "invalid message format")).await?;
                }
                self.sync().await
            }
            // COPY data after a COPY has failed is passed over.
            b'd' | b'c' | b'f' => Ok(()),
            b'F' => Box::pin(self.function_call(frame)).await,
            other => {
                let e = wire::WireError::UnknownType(other);
                Err(ExecError::Client(ClientError::Malformed(e.to_string())))
            }
        }
    }

    /// The client is gone or broke the protocol: what is open is rolled back, and it is told if it still listens.
    pub(super) async fn end(&mut self, result: &Result<()>) {
        let violation = |message: String| ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, message);
        match result {
            Err(ExecError::Client(ClientError::OutOfStep(message))) => {
                ErrorFields::error(sqlstate::PROTOCOL_VIOLATION, message.clone()).put(self.out(), b'E');
                let lost = "terminating connection because protocol synchronization was lost";
                violation(lost.to_string()).put(self.out(), b'E');
            }
            Err(ExecError::Client(ClientError::Malformed(message))) => violation(message.clone()).put(self.out(), b'E'),
            Err(ExecError::Ended(fields)) => fields.put(self.out(), b'E'),
            // Nobody listens.
            Ok(()) | Err(_) => {}
        }
        let _ = self.io.send().await;
        if self.transaction.is_active() {
            self.rollback().await;
        }
        self.unpin().await;
        self.sequences.lose();
        self.io.close().await;
    }
}
