//! Certificates and keys, as files hold them.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::options::{EtcdOptions, wrong};
use crate::datastore::Error;

/// Where distributions keep the authorities that the whole system trusts.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Whom we trust and what we show.
pub(super) fn config(options: &EtcdOptions) -> Result<TlsConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let authorities = if let Some(path) = &options.ca_cert_file {
        certificates("the authorities' file", path)?
    } else {
        let there = SYSTEM_AUTHORITIES.map(Path::new).into_iter().find(|path| path.exists());
        there.map_or_else(|| Ok(Vec::new()), |path| certificates("the system's authorities", path))?
    };
    config = config.root_certs(RootCerts::Specific(Arc::new(authorities)));
    match (&options.cert_file, &options.key_file) {
        (None, None) => {}
        (Some(cert), Some(key)) => {
            let chain = certificates("the certificate's file", cert)?;
            config = config.client_cert(Some(ClientCert::new_with_certs(&chain, private_key(key)?)));
        }
        (Some(path), None) => {
            return Err(wrong(&format!("certificate {}", path.display()), "its key is not named"));
        }
        (None, Some(path)) => {
            return Err(wrong(&format!("key {}", path.display()), "its certificate is not named"));
        }
    }
    Ok(config.build())
}

fn certificates(what: &str, path: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = items(what, path)?.into_iter().filter_map(certificate).collect();
    if found.is_empty() {
        return Err(wrong(&format!("{what} {}", path.display()), "it holds no certificate in PEM"));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKey<'static>, Error> {
    let key = |item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    };
    let what = "the key's file";
    let missing = || wrong(&format!("{what} {}", path.display()), "it holds no private key in PEM");
    items(what, path)?.into_iter().find_map(key).ok_or_else(missing)
}

fn items(what: &str, path: &Path) -> Result<Vec<PemItem<'static>>, Error> {
    let text = std::fs::read(path).map_err(|error| wrong(&format!("{what} {}", path.display()), error))?;
    let items: Result<Vec<_>, _> = parse_pem(&text).collect();
    items.map_err(|error| wrong(&format!("{what} {}", path.display()), error))
}
