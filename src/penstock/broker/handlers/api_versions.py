"""ApiVersions, versions 0 to 4, and any other: what this broker serves.

A version that we do not know is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions
itself, so that the client can ask again (KIP-511). Produce is advertised from version 0 although 3 is the lowest
served: librdkafka before 2.11.1 compresses only then (KAFKA-18659). Feature group.version 1 says that consumer groups
(KIP-848) are served, transaction.version 2 that each transaction may have an epoch of its own (KIP-890); both are
always on here.
"""

from __future__ import annotations

import re

from penstock.broker import handlers
from penstock.broker.context import Call, Context
from penstock.errors import ErrorCode
from penstock.wire import api as apis
from penstock.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.wire.header import API_VERSIONS_KEY

PRODUCE_KEY = 0
SOFTWARE_SINCE = 3
FEATURES = {"group.version": 1, "transaction.version": 2}
FEATURES_EPOCH = 0
"""Features do not change while the cluster lives."""
_SOFTWARE_WORD = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(_context: Context, call: Call, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    if request is None:
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [_advertised(API_VERSIONS_KEY)])
    if call.version >= SOFTWARE_SINCE:
        if not (_is_word(request.client_software_name) and _is_word(request.client_software_version)):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        call.connection.client_software = f"{request.client_software_name} {request.client_software_version}"
    return ApiVersionsResponse(
        0,
        [_advertised(key) for key in sorted(handlers.MODULES)],
        supported_features=[SupportedFeatureKey(name, level, level) for name, level in FEATURES.items()],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in FEATURES.items()],
    )


def _advertised(key: int) -> ApiVersion:
    versions = apis.load(key).versions
    return ApiVersion(key, 0 if key == PRODUCE_KEY else versions.low, versions.high)


def _is_word(text: str) -> bool:
    return _SOFTWARE_WORD.fullmatch(text) is not None
