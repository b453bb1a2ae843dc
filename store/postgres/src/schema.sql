-- The tables of the store, created in a schema of their own. Keys and values are bytes: keys order bytewise under any
-- collation. `plpgsql`, the language of the function, is part of PostgreSQL.

create table about (
    only_row boolean primary key check (only_row),
    format bigint not null,
    -- Drawn when the tables are created. Tells this store from another one under the same name.
    identity text not null,
    -- Added to every number of the sequence `versions`. Raised by batches that ask for a greater version.
    raised bigint not null,
    -- The greatest version of the batches that are no longer remembered.
    forgotten bigint not null
);

-- The numbers of commits. Commits of different keys do not wait for each other, so they may become visible in another
-- order than that of their numbers; commits of one key do not.
create sequence versions;

create table rows (
    key bytea primary key,
    version bigint not null,
    value bytea not null
) with (fillfactor = 80);

-- The batches that are recognised when they are submitted again.
create table batches (
    id bytea primary key,
    version bigint not null,
    at timestamptz not null
);

-- The rows as text, for people.
create view shown as
    select
        case position('\x00'::bytea in key) when 0 then convert_from(key, 'UTF8') else encode(key, 'escape') end as key,
        version,
        encode(value, 'escape') as value
    from rows;

-- Proves that the statement that calls it sees all that a process was acknowledged, and that the server is the primary:
-- true, or an error. It is stable, so it looks at the snapshot of that statement.
create function prove(
    known text,           -- the identity of the store
    marks bytea[],        -- the newest batches that the process was acknowledged
    numbers bigint[]      -- their versions
) returns boolean language plpgsql stable as $$
declare
    upto bigint;
begin
    if pg_is_in_recovery() or current_setting('transaction_read_only')::boolean then
        raise exception 'the server is a standby or read-only' using errcode = '25006';
    end if;
    select a.forgotten into upto from about a where a.only_row and a.identity = known;
    if not found then
        raise exception 'the tables of the store were removed and created again' using errcode = 'CP001';
    end if;
    if exists (
        select 1 from unnest(marks, numbers) as m(id, number)
            where m.number > upto and not exists (select 1 from batches b where b.id = m.id)
    ) then
        raise exception 'the server lacks commits that this process was acknowledged' using errcode = 'CP002';
    end if;
    return true;
end
$$;

-- Commits one batch. It runs as a transaction of its own at serializable isolation, so that a commit is one round trip.
--
-- Answers with the version in `given`, or with the position of the first expectation that does not hold in `refused`,
-- and what was found there in `actual` (null: nothing).
--
-- The expected rows stay locked until the commit: no other commit changes what this one relies on before it is visible.
-- Without the locks, serializable isolation alone would let an owner's last commit become visible after the commit that
-- replaced the owner, as long as no transaction has read both.
create function commit_batch(
    batch bytea,
    above bigint,
    known text,           -- the identity of the store
    marks bytea[],        -- the newest batches that the process was acknowledged
    numbers bigint[],     -- their versions
    expected bytea[],     -- keys
    versions bigint[],    -- their versions; 0: the key does not exist
    written bytea[],      -- the expected keys that the batch writes too
    unwritten bytea[],    -- the other ones
    absent bytea[],       -- the expected keys that do not exist and that the batch does not put
    starts bytea[],       -- ranges to delete
    ends bytea[],         -- their ends; null: none
    deleted bytea[],      -- keys to delete
    put bytea[],          -- keys to put
    contents bytea[],     -- their values
    channel text,
    topics text[],
    out given bigint,
    out refused bigint,
    out actual bigint,
    out earlier boolean   -- an earlier submission made the commit
) language plpgsql as $$
declare
    base bigint;
    upto bigint;
    number bigint;
begin
    earlier := false;
    -- A session may outlive the tables that it was opened for.
    select a.raised, a.forgotten into base, upto from about a where a.only_row and a.identity = known;
    if not found then
        raise exception 'the tables of the store were removed and created again' using errcode = 'CP001';
    end if;
    -- It may lead to a server that was replaced. An attempt to insert looks for the batches without the locks of a
    -- serializable read, which would conflict with commits that remember their batches in the same pages.
    insert into batches (id, version, at)
        select m.id, m.number, now() from unnest(marks, numbers) as m(id, number) where m.number > upto
        on conflict (id) do nothing;
    if found then
        raise exception 'the server lacks commits that this process was acknowledged' using errcode = 'CP002';
    end if;

    if cardinality(written) > 0 then
        perform 1 from rows r where r.key = any(written) order by r.key for update;
    end if;
    if cardinality(unwritten) > 0 then
        perform 1 from rows r where r.key = any(unwritten) order by r.key for share;
    end if;
    if cardinality(expected) > 0 then
        select e.nth, r.version into refused, actual
            from unnest(expected, versions) with ordinality as e(key, version, nth)
            left join rows r on r.key = e.key
            where coalesce(r.version, 0) <> e.version
            order by e.nth limit 1;
        if refused is not null then
            -- The batch itself may have changed what it expects: it is submitted again.
            select b.version into given from batches b where b.id = batch;
            if given is not null then
                earlier := true;
                refused := null;
                actual := null;
            end if;
            return;
        end if;
    end if;

    number := nextval('versions');
    if base + number <= above then
        update about set raised = above where only_row;
        base := above;
    end if;
    given := base + number;
    insert into batches (id, version, at) values (batch, given, now()) on conflict (id) do nothing;
    if not found then
        select b.version into strict given from batches b where b.id = batch;
        earlier := true;
        return;
    end if;

    -- There is no row to lock. A row that is inserted and deleted again keeps others from inserting it until the commit.
    if cardinality(absent) > 0 then
        insert into rows (key, version, value) select k, 0, '' from unnest(absent) k on conflict (key) do nothing;
        delete from rows r where r.key = any(absent);
    end if;
    for nth in 1 .. cardinality(starts) loop
        if ends[nth] is null then
            delete from rows r where r.key >= starts[nth];
        else
            delete from rows r where r.key >= starts[nth] and r.key < ends[nth];
        end if;
    end loop;
    if cardinality(deleted) > 0 then
        delete from rows r where r.key = any(deleted);
    end if;
    if cardinality(put) > 0 then
        insert into rows (key, version, value)
            select p.key, given, p.value from unnest(put, contents) as p(key, value)
            on conflict (key) do update set version = excluded.version, value = excluded.value;
    end if;
    if cardinality(topics) > 0 then
        perform pg_notify(channel, t) from unnest(topics) t;
    end if;
end
$$;
