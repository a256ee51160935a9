//! Fetches a document: from a file, or from the one address that was named. Redirects are not followed.

use std::time::Duration;

use anyhow::Context as _;

use crate::config::is_web_url;

/// The bytes at a place: an `https://` address (`http://` on loopback), else a file.
pub(crate) async fn fetch(place: &str) -> anyhow::Result<Vec<u8>> {
    match place.contains("://") {
        true => from_address(place).await,
        false => {
            let read = settings::read(std::fs::File::open(place), MOST);
            read.map_err(|why| anyhow::anyhow!("`{place}` {why}"))
        }
    }
}

async fn from_address(url: &str) -> anyhow::Result<Vec<u8>> {
    is_web_url(url).map_err(|why| anyhow::anyhow!("the address of the document {why}"))?;
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(PATIENCE)
        .build()?;
    let mut response = client.get(url).send().await.map_err(|error| {
        // The address may hold what is nobody else's business.
        anyhow::Error::new(error.without_url()).context("the document cannot be fetched")
    })?;
    let status = response.status();
    anyhow::ensure!(
        !status.is_redirection(),
        "the document's address redirects, which is not followed; name the address it leads to if you trust it"
    );
    anyhow::ensure!(
        status == http::StatusCode::OK,
        "the document's address answered with HTTP status {}",
        status.as_u16()
    );
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .context("the document cannot be read to its end")?
    {
        body.extend_from_slice(&piece);
        anyhow::ensure!(
            body.len() as u64 <= MOST,
            "the document is larger than {} MiB",
            MOST >> 20
        );
    }
    Ok(body)
}

const MOST: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
