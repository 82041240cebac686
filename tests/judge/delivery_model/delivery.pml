/*
 * The life of a delivery, for Spin (spinroot.com) to search exhaustively.
 *
 *   queued --claim--> claimed --intend--> sending --settle--> sent, failed, or queued again
 *     ^                  |                   |
 *     +----- release ----+-------------------+  no reply: stays until the lease ends, then in doubt
 *
 * Each transition has the name of the verb in docs/delivery.md, whose table names its function. Workers share
 * only the rows of the database and the mail server; what a worker has in memory dies with it.
 *
 * Everything that delays a letter has a budget, so that the search ends; doubts have MAX_IN_DOUBT, after which
 * a letter is stuck. Limits are searched together, and every worker may take any step at any time.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef LETTERS
#define LETTERS 2
#endif
#ifndef WINDOW
#define WINDOW 1 /* letters sent under one intent; a claim takes all that are due */
#endif
#ifndef FAULTS
#define FAULTS 2 /* how many of these happen, of any kind, each at any instant */
#endif
#ifndef MAX_IN_DOUBT
#define MAX_IN_DOUBT 3 /* as in outbox.backoff */
#endif
#ifndef CRASHES
#define CRASHES 1 /* PostgreSQL: a crash may lose a commit that did not wait for the disk. 0: SQLite */
#endif

#define bit(letter) (1 << (letter))
#define has(set, letter) (((set) >> (letter)) & 1)

mtype:state = { queued, claimed, sending, sent, failed, expired, stuck };
mtype:verdict = { unknown, accepted, refused, deferred, no_reply };
mtype:step = { idle, holding, intended, replied, leaving };

/* -- the database ------------------------------------------------------------------------------------- */

typedef Delivery {
    mtype:state state = queued;
    byte lease;        /* the token of the claim that holds it; 0 is none */
    bool lease_ended;  /* leased_until <= now */
    byte in_doubt;
    bool has_cause     /* not in the database: something has happened that explains a doubt */
};
Delivery db[LETTERS];   /* as the next statement finds it */
Delivery disk[LETTERS]; /* as a crash of the database leaves it */
bool recorded[WORKERS];         /* the attempts of the worker's settlement are stored */
bool recorded_on_disk[WORKERS];

/* -- the workers -------------------------------------------------------------------------------------- */

typedef Worker {
    mtype:step step = idle;
    byte lease;
    byte remaining; /* set of letters: claimed, and not given back or dropped */
    byte window;    /* those of them that are being intended */
    byte to_send;   /* those intended: the worker may send them */
    mtype:verdict verdict[LETTERS];
    bool was_tried; /* a settlement may have been committed */
    bool is_cut     /* its connection is dead, and nobody has noticed yet */
};
Worker worker[WORKERS];

/* -- the world ---------------------------------------------------------------------------------------- */

byte copies[LETTERS];    /* how often the mail server has accepted it */
byte faults = FAULTS;

/* Scratch of one step; emptied at its end, so that it makes no states of its own. */
byte l, n, w, token;
short used;
bool is_executed, is_heard, is_changed;

inline done() {
    d_step { l = 0; n = 0; w = 0; token = 0; used = 0; is_executed = false; is_heard = false; is_changed = false }
}

#define is_open(letter) (db[letter].state == queued || db[letter].state == claimed || db[letter].state == sending)
#define is_due(letter) (is_open(letter) && (db[letter].lease == 0 || db[letter].lease_ended))
#define is_held(letter, from_state, token) (db[letter].state == from_state && db[letter].lease == token)

/* Accepted, or ended with a reason that the operator can see. */
#define is_ended(letter) ((db[letter].state == sent && copies[letter] > 0) \
    || db[letter].state == failed || db[letter].state == expired || db[letter].state == stuck)

/* After the last crash it does not matter what is on disk. */
inline spend_fault() {
    faults--;
    if
    :: faults == 0 -> d_step {
        for (n : 0 .. LETTERS - 1) {
            disk[n].state = queued; disk[n].lease = 0; disk[n].lease_ended = false; disk[n].in_doubt = 0; disk[n].has_cause = false
        }
        for (n : 0 .. WORKERS - 1) { recorded_on_disk[n] = false }
        n = 0 }
    :: else
    fi
}

/* -- what a transaction is ---------------------------------------------------------------------------- */

/* Nothing of it happens; or all, with or without the worker hearing so. The statements of one transaction
   lock the rows that they change until it ends, so it is one step here. */
inline begin(me) {
    is_executed = false; is_heard = false; is_changed = false;
    if
    :: worker[me].is_cut -> worker[me].is_cut = false
    :: !worker[me].is_cut -> is_executed = true; is_heard = true
    :: !worker[me].is_cut && faults > 0 -> spend_fault(); is_executed = true
    :: !worker[me].is_cut && faults > 0 -> spend_fault()
    fi
}

/* A commit that waits for the disk takes every earlier one along, unless it has changed nothing. Only a claim
   does not wait. */
inline flush() {
    if
    :: is_changed && faults > 0 -> d_step {
        for (l : 0 .. LETTERS - 1) {
            disk[l].state = db[l].state; disk[l].lease = db[l].lease; disk[l].lease_ended = db[l].lease_ended;
            disk[l].in_doubt = db[l].in_doubt; disk[l].has_cause = db[l].has_cause
        }
        for (n : 0 .. WORKERS - 1) { recorded_on_disk[n] = recorded[n] }
        n = 0 }
    :: else
    fi
}

/* A commit that does not wait may be on disk at once, or not. */
inline flush_perhaps() {
    if
    :: faults > 0 && CRASHES -> skip
    :: flush()
    fi
}

inline set_free(letter, new_state) {
    db[letter].state = new_state; db[letter].lease = 0; db[letter].lease_ended = false;
    db[letter].has_cause = false; is_changed = true
}

/* Note that whatever is under this lease may end in doubt for a good reason. */
inline explain(a_lease) {
    if
    :: a_lease != 0 -> d_step {
        for (l : 0 .. LETTERS - 1) {
            if :: db[l].lease == a_lease -> db[l].has_cause = true :: else fi;
            if :: disk[l].lease == a_lease -> disk[l].has_cause = true :: else fi
        }
        l = 0 }
    :: else
    fi
}

inline forget_outcome(me) {
    d_step {
    for (l : 0 .. LETTERS - 1) { worker[me].verdict[l] = unknown }
    worker[me].was_tried = false; recorded[me] = false; recorded_on_disk[me] = false
    }
}

inline forget_claim(me) {
    worker[me].remaining = 0; worker[me].window = 0; worker[me].to_send = 0; worker[me].lease = 0;
    worker[me].step = idle
}

/* -- claim -------------------------------------------------------------------------------------------- */

/* Tokens are random. Any that is nowhere in use stands for all of them. */
inline draw_token() {
    d_step {
    used = 1;
    for (l : 0 .. LETTERS - 1) { used = used | bit(db[l].lease) | bit(disk[l].lease) }
    for (n : 0 .. WORKERS - 1) {
        used = used | bit(worker[n].lease)
    }
    token = 1;
    do
    :: has(used, token) -> token++
    :: else -> break
    od;
    used = 0 }
}

/* What was under way when its lease ended is in doubt. */
inline sweep(letter) {
    if
    :: db[letter].state == sending ->
        assert(db[letter].has_cause); /* no doubt without a cause */
#ifndef NO_DOUBT
        db[letter].in_doubt++
#endif
    :: else
    fi
}

inline lease_delivery(me, letter) {
    sweep(letter);
    db[letter].state = claimed; db[letter].lease = token; db[letter].lease_ended = false;
    db[letter].has_cause = false; is_changed = true;
    worker[me].remaining = worker[me].remaining | bit(letter)
}

inline claim(me) {
    printf("worker %d: claim\n", me);
    draw_token();
    begin(me);
    if
    :: is_executed ->
        worker[me].lease = token;
        if /* all that is due, or one letter: another worker has locked the rest */
        :: for (l : 0 .. LETTERS - 1) {
               if :: is_due(l) -> lease_delivery(me, l) :: else fi
           }
        :: is_due(0) -> lease_delivery(me, 0)
        :: is_due(LETTERS - 1) -> lease_delivery(me, LETTERS - 1)
        fi;
        flush_perhaps() /* a lost claim leaves its letters queued */
    :: else
    fi;
    if
    :: is_heard -> worker[me].step = holding
    :: else -> worker[me].step = leaving
    fi
}

inline called_sent(letter) {
#ifndef CALLED_SENT_UNCHECKED
    assert(copies[letter] > 0) /* what is called sent was accepted */
#else
    skip
#endif
}

/* -- intend ------------------------------------------------------------------------------------------- */

inline choose_window(me) {
    d_step {
    worker[me].window = 0; n = 0;
    for (l : 0 .. LETTERS - 1) {
        if
        :: has(worker[me].remaining, l) && n < WINDOW -> n++; worker[me].window = worker[me].window | bit(l)
        :: else
        fi
    }
    }
}

inline renew_and_intend(letter) {
    db[letter].lease_ended = false; /* renew */
    db[letter].state = sending; is_changed = true
}

inline mark_sent_before_sending(letter) { db[letter].state = sent; db[letter].lease = 0; is_changed = true }

/* intend: what may not go is ended or postponed, and the rest may be sent. */
inline intend(me) {
    printf("worker %d: intend\n", me);
    choose_window(me);
    begin(me);
    if
    :: is_executed ->
        for (l : 0 .. LETTERS - 1) {
            if
            :: has(worker[me].window, l) && is_held(l, claimed, worker[me].lease) ->
                if
                :: db[l].in_doubt >= MAX_IN_DOUBT -> set_free(l, stuck)
                :: db[l].in_doubt < MAX_IN_DOUBT -> set_free(l, expired) /* or its reader has unsubscribed */
                :: db[l].in_doubt < MAX_IN_DOUBT && faults > 0 -> spend_fault(); set_free(l, queued) /* it waits for a limit */
                :: db[l].in_doubt < MAX_IN_DOUBT ->
                    worker[me].to_send = worker[me].to_send | bit(l);
#if defined(MARK_FIRST)
                    mark_sent_before_sending(l); called_sent(l)
#elif defined(NO_INTENT)
                    skip /* committed with the outcome only */
#else
                    renew_and_intend(l)
#endif
                fi
            :: else
            fi
        }
        flush()
    :: else
    fi;
    if
    :: is_heard -> begin_sending(me)
    :: else -> worker[me].step = leaving /* no byte has gone out: the window is given back */
    fi
}

/* The window is dropped from what remains: from here on it is settled, not given back. */
inline begin_sending(me) {
    worker[me].remaining = worker[me].remaining & ~worker[me].window; worker[me].window = 0;
    if
    :: worker[me].to_send != 0 -> worker[me].step = intended
    :: worker[me].to_send == 0 && worker[me].remaining != 0 -> worker[me].step = holding
    :: else -> forget_claim(me)
    fi
}

/* -- send --------------------------------------------------------------------------------------------- */

inline accept(letter) {
    printf("server: accepts letter %d\n", letter);
    copies[letter]++;
    assert(copies[letter] <= 1 + db[letter].in_doubt) /* no second copy without a counted doubt */
}

inline send(me, letter) {
    if
    :: accept(letter); worker[me].verdict[letter] = accepted
    :: worker[me].verdict[letter] = refused
    :: faults > 0 -> spend_fault(); worker[me].verdict[letter] = deferred /* or no server began it */
    :: faults > 0 -> spend_fault(); worker[me].verdict[letter] = no_reply /* the text has got lost */
    :: faults > 0 -> spend_fault(); accept(letter); worker[me].verdict[letter] = no_reply
    fi
}

inline end_window(me) {
    worker[me].to_send = 0; worker[me].step = replied
}

/* -- settle ------------------------------------------------------------------------------------------- */

/* settlement.record: what has been recorded is not recorded again. */
inline save(me) {
    if
    :: worker[me].was_tried && recorded[me] -> skip
    :: else ->
        for (l : 0 .. LETTERS - 1) {
            if
#ifdef NO_INTENT
            :: is_held(l, claimed, worker[me].lease) && worker[me].verdict[l] == accepted ->
                set_free(l, sent); called_sent(l)
            :: is_held(l, claimed, worker[me].lease) && worker[me].verdict[l] == no_reply ->
                renew_and_intend(l); db[l].has_cause = true
#endif
            :: is_held(l, sending, worker[me].lease) && worker[me].verdict[l] == accepted ->
                set_free(l, sent); called_sent(l)
            :: is_held(l, sending, worker[me].lease) && worker[me].verdict[l] == refused ->
                set_free(l, failed)
            :: is_held(l, sending, worker[me].lease) && worker[me].verdict[l] == deferred ->
                set_free(l, queued)
            :: is_held(l, sending, worker[me].lease) && worker[me].verdict[l] == no_reply ->
                db[l].has_cause = true /* it stays until its lease ends */
            :: else
            fi
        }
        is_changed = true; recorded[me] = true
    fi
}

/* settle: commit the outcome, again over a new connection if the reply is lost. */
inline settle(me) {
    printf("worker %d: settle\n", me);
    begin(me);
    if
    :: is_executed -> save(me);
#ifdef SETTLE_WITHOUT_DISK
        flush_perhaps()
#else
        flush()
#endif
    :: else
    fi;
    if
    :: is_heard -> forget_outcome(me); go_on(me)
    :: !is_heard -> worker[me].was_tried = true
    :: !is_heard -> /* the database did not return in time, or the worker was interrupted */
        explain(worker[me].lease); forget_outcome(me); worker[me].step = leaving
    fi
}

inline go_on(me) {
    if
    :: worker[me].remaining != 0 -> worker[me].step = holding
    :: worker[me].remaining == 0 -> forget_claim(me)
    fi
}

/* -- release ------------------------------------------------------------------------------------------ */

/* Queue what we hold again, also where the reply to the commit of its intent was lost. */
inline release(me) {
    printf("worker %d: release\n", me);
    begin(me);
    if
    :: is_executed ->
        for (l : 0 .. LETTERS - 1) {
            if
#ifdef NO_FENCE
            :: has(worker[me].remaining, l) && is_open(l) -> set_free(l, queued)
#else
            :: has(worker[me].remaining, l) && is_held(l, claimed, worker[me].lease) -> set_free(l, queued)
#ifndef CLAIMED_ONLY
            :: has(worker[me].remaining, l) && is_held(l, sending, worker[me].lease) -> set_free(l, queued)
#endif
#endif
            :: else
            fi
        }
        flush()
    :: else
    fi;
    if
    :: is_heard -> forget_claim(me)
    :: !is_heard -> skip /* again */
    :: !is_heard -> give_up(me)
    fi
}

/* What it knew is gone. */
inline give_up(me) {
    explain(worker[me].lease);
    forget_outcome(me); forget_claim(me); worker[me].is_cut = false
}

/* -- processes ---------------------------------------------------------------------------------------- */

#define is_any_due (is_due(0) || is_due(1) || is_due(LETTERS - 1))
#define mine worker[me]
#define is_window_sent (mine.to_send & ~(((mine.verdict[0] != unknown) << 0) | ((mine.verdict[1] != unknown) << 1) \
    | ((mine.verdict[LETTERS - 1] != unknown) << (LETTERS - 1)))) == 0

proctype Work(byte me) {
end:
    do
    :: atomic { mine.step == idle && is_any_due -> claim(me); done() }
    :: atomic { mine.step == holding -> intend(me); done() }
    :: atomic { mine.step == holding && faults > 0 -> spend_fault(); mine.step = leaving; done() } /* the run ends */

    :: atomic { mine.step == intended && has(mine.to_send, 0) && mine.verdict[0] == unknown -> send(me, 0); done() }
    :: atomic { mine.step == intended && has(mine.to_send, 1) && mine.verdict[1] == unknown -> send(me, 1); done() }
#if LETTERS > 2
    :: atomic { mine.step == intended && has(mine.to_send, 2) && mine.verdict[2] == unknown -> send(me, 2); done() }
#endif
    :: atomic { mine.step == intended && (is_window_sent) -> end_window(me); done() }

    :: atomic { mine.step == replied -> settle(me); done() }

    :: atomic { mine.step == leaving && mine.remaining != 0 -> release(me); done() }
    :: atomic { mine.step == leaving && mine.remaining == 0 -> forget_claim(me); done() }

    /* The pool tests an idle connection and replaces a dead one; its worker does not hear of it. */
    :: atomic { mine.is_cut -> mine.is_cut = false; done() }

    :: atomic { faults > 0 && mine.step != idle -> spend_fault(); give_up(me); done() } /* it is killed */
    od
}

/* Time passes. A letter expires once, and every lease ends if its worker is dead or has done with the letter. */
#define works_on(me, letter) (worker[me].lease == db[letter].lease \
    && (has(worker[me].remaining | worker[me].to_send, letter) || worker[me].verdict[letter] != unknown))
#define is_worked_on(letter) (works_on(0, letter) || works_on(WORKERS - 1, letter))

/* Its worker has slept its lease away, which a crash of the database does not undo. */
inline explain_letter(letter) {
    db[letter].has_cause = true;
    if :: disk[letter].lease == db[letter].lease -> disk[letter].has_cause = true :: else fi
}

inline end_lease(letter) {
    db[letter].lease_ended = true;
    if :: disk[letter].lease == db[letter].lease -> disk[letter].lease_ended = true :: else fi
}

proctype Pass_time(byte letter) {
end:
    do
    :: atomic { db[letter].lease != 0 && !db[letter].lease_ended && !is_worked_on(letter) -> end_lease(letter); done() }
    :: atomic { db[letter].lease != 0 && !db[letter].lease_ended && is_worked_on(letter) && faults > 0 ->
        spend_fault(); explain_letter(letter); end_lease(letter); done() }
    od
}

/* The database crashes and recovers. */
proctype Run_database() {
end:
    do
    /* Nothing is lost: when nothing moves any more, every letter is accepted, or has ended with a reason. */
    :: timeout -> assert(is_ended(0) && is_ended(1) && is_ended(LETTERS - 1)); break
    :: atomic { faults > 0 && CRASHES ->
        for (w : 0 .. WORKERS - 1) {
            recorded[w] = recorded_on_disk[w];
            worker[w].is_cut = worker[w].step != idle
        }
        for (l : 0 .. LETTERS - 1) {
            db[l].state = disk[l].state; db[l].lease = disk[l].lease; db[l].lease_ended = disk[l].lease_ended;
            db[l].in_doubt = disk[l].in_doubt; db[l].has_cause = disk[l].has_cause
        }
        spend_fault(); done() }
    od
}

init {
    atomic {
        for (w : 0 .. WORKERS - 1) { forget_outcome(w); run Work(w) }
        for (w : 0 .. LETTERS - 1) { run Pass_time(w) }
        run Run_database(); done()
    }
}
