"""Settings of TLS: keys, trusted certificates, versions. Stores change at runtime per listener only."""

from __future__ import annotations

from penstock.broker.settings.checks import OneOf
from penstock.broker.settings.setting import BOOLEAN, CLASS, LIST, PASSWORD, PER_BROKER, STRING, Setting

# A table, two lines to a row.
# fmt: off
TLS_SETTINGS = (
    Setting("ssl.allow.dn.changes", BOOLEAN, False,
            doc="Whether a new certificate may have another distinguished name."),
    Setting("ssl.allow.san.changes", BOOLEAN, False,
            doc="Whether a new certificate may drop alternative names."),
    Setting("ssl.cipher.suites", LIST, (), PER_BROKER,
            doc="The TLS cipher suites that are allowed; empty means the defaults."),
    Setting("ssl.client.auth", STRING, "none", PER_BROKER, check=OneOf(("required", "requested", "none")),
            doc="Whether clients must show a certificate: required, requested or none."),
    Setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), PER_BROKER,
            doc="The TLS versions that are allowed."),
    Setting("ssl.endpoint.identification.algorithm", STRING, "https", PER_BROKER,
            doc="How a server's name is checked against its certificate; empty switches the check off."),
    Setting("ssl.engine.factory.class", CLASS, None, PER_BROKER,
            doc="The Java class that makes TLS engines."),
    Setting("ssl.key.password", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The password of the private key."),
    Setting("ssl.keymanager.algorithm", STRING, "SunX509", PER_BROKER,
            doc="Java's algorithm for choosing a key."),
    Setting("ssl.keystore.certificate.chain", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The certificate chain itself, in PEM form."),
    Setting("ssl.keystore.key", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The private key itself, in PEM form."),
    Setting("ssl.keystore.location", STRING, None, PER_BROKER, needs_listener=True,
            doc="The file with the private key and its certificates."),
    Setting("ssl.keystore.password", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The password of the key store."),
    Setting("ssl.keystore.type", STRING, "JKS", PER_BROKER, needs_listener=True,
            doc="The form of the key store: JKS, PKCS12 or PEM."),
    Setting("ssl.principal.mapping.rules", STRING, "DEFAULT",
            doc="Rules that turn a certificate's name into a short name, the first match wins."),
    Setting("ssl.protocol", STRING, "TLSv1.3", PER_BROKER,
            doc="The TLS version that is tried first."),
    Setting("ssl.provider", STRING, None, PER_BROKER,
            doc="Java's security provider for TLS."),
    Setting("ssl.secure.random.implementation", STRING, None, PER_BROKER,
            doc="Java's random number generator for TLS."),
    Setting("ssl.trustmanager.algorithm", STRING, "PKIX", PER_BROKER,
            doc="Java's algorithm for trusting a certificate."),
    Setting("ssl.truststore.certificates", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The trusted certificates themselves, in PEM form."),
    Setting("ssl.truststore.location", STRING, None, PER_BROKER, needs_listener=True,
            doc="The file with the trusted certificates."),
    Setting("ssl.truststore.password", PASSWORD, None, PER_BROKER, needs_listener=True,
            doc="The password of the trust store."),
    Setting("ssl.truststore.type", STRING, "JKS", PER_BROKER, needs_listener=True,
            doc="The form of the trust store: JKS, PKCS12 or PEM."),
)
# fmt: on
