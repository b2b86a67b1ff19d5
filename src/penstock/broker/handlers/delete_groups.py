"""DeleteGroups, versions 0 to 2: forget groups without members, and their offsets.

The answer comes when all deletions are committed.
"""

from __future__ import annotations

from functools import partial

from penstock.broker.context import Call, Context, Later
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(context: Context, _call: Call, request: DeleteGroupsRequest) -> Later:
    later = Later()
    answers = {group_id: DeletableGroupResult(group_id) for group_id in request.groups_names}
    response = DeleteGroupsResponse(results=list(answers.values()))
    waiting = set(answers)

    def on_done(group_id: str, error: KafkaError | None) -> None:
        answers[group_id].error_code = ErrorCode.NONE if error is None else error.code
        waiting.discard(group_id)
        if not waiting:
            later.finish(lambda: response)

    if not answers:
        later.finish(lambda: response)
    for group_id in answers:
        try:
            context.groups.delete_group(group_id, partial(on_done, group_id))
        except KafkaError as error:
            on_done(group_id, error)
    return later
