"""Reads the consumption history of projects and branches as periods."""

from collections.abc import AsyncIterator, Mapping, Sequence

from bough.chunks import iterate_chunks
from bough.domain.consumption_metrics import Evaluator, Metric, StoredBucket
from bough.domain.consumption_periods import BucketSpan, Lifetime, Period, PeriodBuilder, ProjectTerm
from bough.ids import BranchId, OrganizationId, ProjectId
from bough.store.consumption_reads import BucketQuery, Buckets, CountedBranch, CountedProject
from bough.store.store import Rows

_BATCH_SIZE = 20  # projects or branches that are computed before others get a turn


class History:
    """What is read: the buckets of an organization in a span."""

    def __init__(self, org_id: OrganizationId, span: BucketSpan, metrics: Sequence[Metric]) -> None:
        self.org_id = org_id
        self.span = span
        self.metrics = tuple(metrics)
        self._evaluator = Evaluator(metrics)
        self._builder = PeriodBuilder(span, self._evaluator)

    async def read_projects(
        self, rows: Rows, found: Sequence[CountedProject]
    ) -> AsyncIterator[tuple[CountedProject, list[Period]]]:
        async for chunk in iterate_chunks(found, _BATCH_SIZE):
            terms = await rows.consumption_reads.list_terms([each.id for each in chunk])
            buckets = await self._read_buckets(rows, [each.id for each in chunk])
            for each in chunk:
                lifetime = Lifetime(created_at=each.created_at, deleted_at=each.deleted_at)
                yield each, self._build(lifetime, terms.get(each.id, ()), buckets.get((each.id, ""), {}))

    async def read_branches(
        self, rows: Rows, found: Sequence[CountedBranch]
    ) -> AsyncIterator[tuple[CountedBranch, list[Period]]]:
        async for chunk in iterate_chunks(found, _BATCH_SIZE):
            projects = list({each.project_id for each in chunk})
            terms = await rows.consumption_reads.list_terms(projects)
            buckets = await self._read_buckets(rows, projects, [each.id for each in chunk])
            for each in chunk:
                lifetime = Lifetime(created_at=each.created_at, deleted_at=each.deleted_at)
                own = buckets.get((each.project_id, each.id), {})
                yield each, self._build(lifetime, terms.get(each.project_id, ()), own)

    def _build(
        self, lifetime: Lifetime, terms: Sequence[ProjectTerm], buckets: Mapping[int, Sequence[StoredBucket]]
    ) -> list[Period]:
        """Without a term, nothing of the project has been counted yet."""
        return self._builder.build(lifetime, [term for term in terms if term.org_id == self.org_id], buckets)

    async def _read_buckets(
        self, rows: Rows, project_ids: Sequence[ProjectId], branch_ids: Sequence[BranchId] | None = None
    ) -> Buckets:
        return await rows.consumption_reads.list_buckets(
            BucketQuery(
                granularity=self.span.granularity,
                start=self.span.start,
                end=self.span.end,
                project_ids=project_ids,
                branch_ids=branch_ids,
                columns=self._evaluator.columns,
            )
        )
