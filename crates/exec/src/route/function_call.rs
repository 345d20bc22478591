//! A function call message, as it is, on home. It does not know which functions may be called that way.

use wire::Frame;

use crate::client::{Answer, Client};
use crate::error::Result;
use crate::work::Work;
use crate::work::rows;

impl<C: Client> Work<'_, C> {
    /// The client is told the value, or the error is returned.
    pub async fn function_call(&mut self, message: &Frame) -> Result<()> {
        let mut p = self.lane(self.home()).await?;
        if !p.wrote {
            // Only home knows: it is asked before a commit over several nodes.
            p.wrote = true;
            self.transaction.asks_who_wrote = true;
        }
        p.lane.conn.out().extend_from_slice(&message.raw);
        p.lane.conn.sent_sync();
        let answered = self.value_called(&mut p.lane).await;
        self.put_back(p).await;
        answered
    }

    async fn value_called(&mut self, lane: &mut txn::Lane) -> Result<()> {
        lane.conn.flush().await?;
        loop {
            let frame = lane.next().await?;
            match frame.tag() {
                b'V' => self.client.tell(Answer::Sent(&frame.raw)),
                b'N' => lane.said.hear(&frame),
                b'E' => return Err(rows::after_error(lane, &frame).await),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }
}
