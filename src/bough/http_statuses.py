"""Kind → HTTP status, for every edge that speaks HTTP."""

from bough.errors import Kind

STATUS = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.DENIED: 403,
    Kind.NOT_FOUND: 404,
    Kind.CAPACITY: 406,
    Kind.TAKEN: 409,
    Kind.PRECONDITION: 412,
    Kind.RULE: 422,
    Kind.LOCKED: 423,
    Kind.RATE: 429,
    Kind.UNAVAILABLE: 503,
    Kind.INTERNAL: 500,
}
