//! A place-holder for the router: it listens, lets everyone log in, and closes at the first message.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;

pub async fn run(config: Config) -> std::io::Result<()> {
    let listener = TcpListener::bind(&config.listen[..]).await?;
    let mut end = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                tokio::spawn(greet(accepted?.0));
            }
            _ = end.recv() => return Ok(()),
        }
    }
}

async fn greet(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let length = stream.read_u32().await?;
        let mut body = vec![0; length.saturating_sub(4).min(10_000) as usize];
        stream.read_exact(&mut body).await?;
        let code = body.get(..4);
        if code == Some(&80_877_103u32.to_be_bytes()) || code == Some(&80_877_104u32.to_be_bytes())
        {
            stream.write_all(b"N").await?;
            continue;
        }
        stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
        stream.read_u8().await?;
        return Ok(());
    }
}
