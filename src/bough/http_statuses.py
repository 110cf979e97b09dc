"""HTTP statuses of error kinds, for all HTTP APIs."""

from bough.errors import ErrorKind

STATUS_BY_KIND = {
    ErrorKind.INVALID: 400,
    ErrorKind.UNAUTHENTICATED: 401,
    ErrorKind.DENIED: 403,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.CAPACITY: 406,
    ErrorKind.CONFLICT: 409,
    ErrorKind.PRECONDITION: 412,
    ErrorKind.RULE: 422,
    ErrorKind.LOCKED: 423,
    ErrorKind.RATE_LIMIT: 429,
    ErrorKind.UNAVAILABLE: 503,
    ErrorKind.INTERNAL: 500,
}
