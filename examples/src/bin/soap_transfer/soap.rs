//! SOAP 1.1, as much of it as the bank speaks.

use serde::{Deserialize, Serialize};

/// A SOAP message.
#[derive(Serialize, Deserialize)]
#[serde(rename(serialize = "soap:Envelope", deserialize = "Envelope"))]
struct Envelope {
    #[serde(rename = "@xmlns:soap", skip_deserializing)]
    soap: &'static str,
    #[serde(rename = "@xmlns", skip_deserializing)]
    bank: &'static str,
    #[serde(rename(serialize = "soap:Body", deserialize = "Body"))]
    body: Body,
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(rename = "$value")]
    content: Content,
}

/// What the two sides say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    Transfer {
        reference: String,
        iban: String,
        cents: i64,
    },
    TransferResponse {
        booking: usize,
    },
    FindTransfer {
        reference: String,
    },
    FindTransferResponse {
        status: String,
    },
    #[serde(rename(serialize = "soap:Fault", deserialize = "Fault"))]
    Fault {
        faultcode: String,
        faultstring: String,
    },
}

/// A message as XML.
pub(crate) fn write(content: Content) -> Result<String, quick_xml::SeError> {
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    let envelope = Envelope { soap, bank: "urn:bank.example", body: Body { content } };
    let xml = quick_xml::se::to_string(&envelope)?;
    Ok(format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{xml}"))
}

/// What a message says.
pub(crate) fn read(xml: &[u8]) -> Result<Content, quick_xml::DeError> {
    quick_xml::de::from_reader(xml).map(|envelope: Envelope| envelope.body.content)
}
