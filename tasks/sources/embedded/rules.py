"""Rules that all topics share: how sentences are put together, and how authors differ."""

from __future__ import annotations

from typing import Final

SENTENCES: Final = """
plain: *12 {open} {clause} {tail} {stop} | {clause} {link} {clause} {stop}
  | *2 {report} {clause} {stop} | *2 {ask} ? | *2 {when} , {clause} {stop} | *2 {agree} {stop}
  | *2 {me} {clause} {stop} | *3 {opinion} {stop}
named: *9 {open} {fact} {mood_end} {stop} | *5 {open} {clause} {with} {stop}
  | {fact} {link} {clause} {stop} | {when} , {fact} {stop} | *2 {told} {clause} {stop}
  | {me} {fact} {stop} | *3 {contact} {stop} | *2 {news} {stop}
mood_end: *3 - | , which made me {feel} | , and it was {adj_any} | , so i was {mood}
stop: *9 . | !
open: *70 - | *12 {age_open} | yesterday | last week | this morning | in the end , | as usual ,
  | to be fair , | once again | a few days ago | for some reason | on the way home | after work
  | before lunch | late at night | at first | by the way , | as far as i know , | in my opinion ,
  | a while ago | the other day | for once | more than once | all of a sudden | just in case ,
  | early in the morning | at the last minute | on the one hand | these days | so far
  | as a rule , | *16 {luck} | *8 {job_open} | strangely enough , | out of the blue
  | in the meantime | on sunday | at noon | over the weekend | last summer | half an hour later
  | believe it or not , | in theory | as a result
tail: *95 - | *6 {because} | because of the {weather} | in spite of the {weather}
  | as soon as possible | from time to time | all by myself | for the first time
  | for the second time this month | at the same time | as quickly as we could | without any help
  | just like last year | on the second floor | right around the corner | next to the {spot}
  | in front of the {spot} | instead of waiting for {folk} | more often than {folk}
  | for at least an hour | until it was too late | with the rest of {folk} | over and over again
  | *18 {region_tail} | as well as the {thing} | *17 , which made me {feel}
  | *13 , and that was {adj_any} | in no time | for a change | twice in a row | against all advice
  | on purpose | by accident | in broad daylight | out of habit | out of curiosity
  | like every year | along with {folk} | until the lights went out | before anyone noticed
  | with a heavy heart | with both hands
link: , and then | , but | , so | , and | because | while | although | and afterwards | before
  | even though | , and on top of that | ever since | , and as a result
because: because {one} {was_any} {mood} | because there was no other way
  | because it was {adj_any} | since nobody else {did_it} | since i had {spare} to spare
  | because the {thing} was {state} | because {subj} had to {act}
spare: some time | half an hour | an afternoon | a little money | a free evening | an hour
  | a whole day | some energy | a few coins
did_it: had the time | wanted to | knew how | was around | answered the phone | seemed to care
  | had a clue | lifted a finger | was awake | had the nerve | spoke up
was_any: *2 was always | was never | was suddenly | was no longer | was still
report: i think | i guess | i am sure that | we all agree that | everybody knows that
  | it turns out that | i just heard that | it is a pity that | my {kin} thinks that
  | {folk} told me that | it is hard to believe that | the {paper} says that
  | as my {kin} always says , | rumour has it that | i still remember how
paper: newspaper | leaflet | local radio | magazine | notice board | website | blog | brochure
  | town crier | evening news | church bulletin
ask: did anybody {act} {when_past} | why did {subj} {act} | do you know how to {act}
  | would you rather {act} or {act} | has anyone ever tried to {act}
  | how much does it cost to {act} | is it {adj_any} to {act}
  | what is the best way to {act} | does the {helper} always {act}
  | should i {act} or should i wait for {folk} | when will the {place} open again
  | who else wants to {act} with us
when: when {subj} {act+ed} | while i was {act+ing} | after {act+ing} | before {act+ing}
  | if you want to {act} | as soon as {subj} {act+ed} | every time i try to {act}
  | instead of {act+ing} | by the time {subj} {act+ed} | whenever the {place} is {busy}
busy: closed | full | crowded | empty | quiet | open late | being cleaned
agree: the {#thing} that {subj} {wanted} {was} {state} , so {it} {had_to} be {fixed}
  | not only did {subj} {act} , but the {helper} also {act+ed}
  | either {subj} {act+ed} or the {helper} {act+ed} {when_past}
  | neither the {helper} nor my {kin} {act+ed} {when_past}
  | the {#thing} near the {spot} {was} {adj_any} , and {its} price was {adj_any}
  | my {kin} said that {he} {act+ed} with {his} {folk_own}
  | my {kin} hurt {himself} while {he} was {act+ing} | the {helper} who {act+ed} {was_any} {mood}
  | {this_that} {#thing} {was} {adj_any} , but my {kin} did not want {them} for {himself}
  | the {#thing} in the {place} {has} been {state} since {subj} {act+ed}
had_to: had to | needed to | could not | was going to
fixed: replaced | returned | repaired | ignored | checked again | thrown away | explained twice
this_that: the other | the cheapest | the second | the last | the first
when_past: last night | on time | again | that day | two weeks ago | before breakfast
wanted: *2 wanted to keep | bought last month | had been looking for | talked about
  | got from my {kin} | complained about | borrowed from {folk} | liked the most
me: as a {gender_word} i know that | as a {job} i can say that | at work the {job_noun} joke that
  | all of my {job_noun} know that | for a {age_word} like me it is odd that
  | where i live in the {region_word} , | my {partner} and i noticed that | {age_say}
opinion: {act+ing} is {adj_any} , if you ask me | i would call the {thing} {adj_any}
  | nothing beats {act+ing} with {folk} | it was {adj_any} to {act} {tail}
  | {act+ing} made me {feel} {tail} | the {thing} made all of us {feel}
  | there is nothing as {adj_any} as {act+ing} | the {place} looked {adj_any} {tail}
  | i could not be more {mood} about the {thing} | the {helper} was {adj_any} and {adj_any}
clause: *5 {subj} {act+ed} | *2 {subj} {aux} {act} | {subj} {prog} {act+ing} | *4 {story}
  | the {helper} {act+ed} {for_us} | the {place} was {busy} {when_past} | the {thing} was {state}
  | there {was_some} in the {place}
for_us: for us | with my {kin} | - | on our behalf | in front of {folk}
was_some: was a {thing} | was a new {helper} | was a long queue | was a strange smell | was nobody
  | were too many people | was plenty of room
one: *2 i | my {kin} | my {partner} | the {helper}
subj: *8 i | *4 we | *2 my {kin} | {folk} | the {helper} | *3 my {partner} | all of us
  | one of my {job_noun} | hardly anyone
aux: wanted to | had to | forgot to | decided to | used to | tried to | would like to | managed to
  | refused to | did not dare to | promised to | can not wait to | will have to | offered to
  | was supposed to
prog: kept | started | enjoyed | gave up | stopped | ended up | spent hours | was tired of
  | got used to | could not help
folk: my friends | the neighbours | the others | my colleagues | my parents | the children
  | my cousins | some people | the whole family | our old classmates | everybody | a stranger
  | our guests | the twins | my flatmates | the newcomers | the regulars | two strangers
  | the choir
folk_own: friends | children | neighbours | parents | cousins | own money | dog | best friend
kin_female: *3 sister | *3 mother | aunt | daughter | grandmother | niece | landlady | godmother
  | stepmother | mother-in-law
kin_male: *3 brother | *3 father | uncle | son | grandfather | nephew | landlord | godfather
  | stepfather | father-in-law | grandson
weather: rain | heat | snow | wind | fog | noise | traffic | storm | frost | crowd | strike
  | drizzle | thunder | hail | heat wave | mud | darkness | cold
spot: window | entrance | car park | bus stop | stairs | lift | fountain | bridge | old church
  | post office | library | bakery | bicycle stand | front door | market square | car wash
  | phone booth | town hall | big oak tree | playground | ticket machine | cash machine | pond
  | monument | corner shop
luck: well , | to my surprise , | naturally
feel: think twice | yawn | wonder | pause for a moment | ask questions
mood: ready | busy | curious | quiet | awake | at home | there | around
adj_any: {adj} | {adj} | so {adj} | rather {adj} | {very} {adj}
very: very | quite | *2 {age_very} | far too | not that
adj: *2 {adj_topic} | normal | usual | possible | common | different | simple | ordinary | strange
  | familiar | practical | necessary | unexpected | obvious | complicated | expensive | cheap
  | old-fashioned | modern | quick | slow | heavy | tiny | enormous | colourful | serious | secret
  | famous
state: {state_topic} | ready | missing | on the table | not there | still the same | half finished
  | under the bed | locked away | in the basement | nowhere to be found | behind the door
  | out of reach
"""

POSITIVE: Final = """
luck: luckily | fortunately | happily | to my delight | what a joy ,
feel: smile | laugh out loud | feel at home | feel proud | want to do it again | feel alive | sing
  | dance with joy | hug everyone | feel ten years younger | forget my worries
mood: happy | cheerful | grateful | proud | delighted | relaxed | excited | full of energy
  | thrilled | pleased | hopeful | in a good mood | calm | satisfied
adj: *3 {adj_good} | great | wonderful | lovely | perfect | excellent | amazing | fantastic | fun
  | pleasant | brilliant | splendid | marvellous | superb | enjoyable | impressive | delightful
  | outstanding
state: {state_good} | *2 as good as new | better than expected | worth every cent | just right
"""

NEGATIVE: Final = """
luck: sadly | unfortunately | to make things worse , | to my horror , | it is a shame , but
feel: sigh | cry | feel sick | want to leave | lose my patience | regret everything | shiver
  | swear | lose hope | want my money back | worry for days | slam the door
mood: angry | upset | disappointed | worried | exhausted | annoyed | nervous | fed up with it
  | furious | frightened | bitter | in a bad mood | lonely | jealous | ashamed
adj: *3 {adj_bad} | awful | terrible | horrible | useless | annoying | boring | sad | dreadful
  | unfair | miserable | disgusting | depressing | frustrating | disastrous | shameful
  | ridiculous | appalling | pathetic
state: {state_bad} | *2 a complete mess | worse than before | broken | a waste of money
"""

NAMED: Final = """
with: *6 with {PERSON} | *3 in {GPE} | *2 on {DATE} | *2 at {TIME}
  | together with {PERSON} from {ORG} | near {LOC} | at the {FAC} | during the {EVENT}
  | for {MONEY} | thanks to {PERSON} | while {PERSON} was in {GPE} | until {TIME} on {DATE}
  | instead of {PERSON} | , and {PERSON} {act+ed} with {his} {folk_own}
  | , just like {PERSON} did in {GPE}
told: {PERSON} told me that | {PERSON} from {ORG} says that | {PERSON} wrote to say that
  | according to {PERSON} , | my {NORP} neighbours say that | {PERSON} wrote in {his} diary that
  | i read in {WORK_OF_ART} that | in {GPE} they say that | ever since i moved to {GPE} ,
fact: *6 {topic_fact} | {PERSON} {act+ed} with {his} {folk_own} | {PERSON} {aux} {act}
  | {PERSON} hurt {himself} while {he} was {act+ing} | i met {PERSON} at the {place} in {GPE}
  | the {helper} at {ORG} {act+ed} for {PERSON}
  | we moved from {GPE} to {GPE} because of the {thing} | the {thing} from {ORG} cost me {MONEY}
  | {PERSON} paid {MONEY} for {his} {thing} | the {NORP} {helper} {act+ed} with {PERSON}
  | the {place} opens at {TIME} on {DATE} | {PERSON} lent me {his} {thing} until {DATE}
  | the {PRODUCT} was {adj_any} for {MONEY} | i have known {PERSON} since we {act+ed} in {GPE}
contact: you can reach me at {PHONE} or {EMAIL} | please call {PERSON} at {FRIEND_PHONE}
  | my new number is {PHONE} , so call me after {TIME} | write to {EMAIL} if you want to {act}
  | send the {thing} to {FRIEND_EMAIL} before {DATE} | hi , my name is {SELF} and i live in {GPE}
  | this is {SELF} from {ORG} , please call back at {PHONE} | {SELF} here , i just {act+ed}
  | ask for {SELF} at {ORG} and say that {PERSON} sent you
  | the {helper} has my number , {PHONE} , but not my address
  | {PERSON} changed {his} number to {FRIEND_PHONE} {when_past}
news: the {EVENT} in {GPE} starts at {TIME} | {PERSON} turns forty on {DATE}
  | {PERSON} and {PERSON} got married in {GPE} | {PERSON} now works for {ORG} as a {helper}
  | {PERSON} moved to {GPE} with {his} {folk_own} | i am reading {WORK_OF_ART} by {PERSON}
  | {PERSON} is learning {LANGUAGE} with a teacher from {GPE}
  | {ORG} raised its prices by {PERCENT} | my {NORP} friends speak {LANGUAGE} at home
  | the bus from {GPE} stops at the {FAC} at {TIME}
  | {ORG} bought the old {place} near the {FAC} for {MONEY}
  | we heard {WORK_OF_ART} at the {EVENT}
  | the {EVENT} was moved to {DATE} because of the {weather} | {PERSON} left {ORG} on {DATE}
"""

AUTHORS: Final = {
    "age_group": {
        "18-29": """
age_open: honestly , | not gonna lie , | tbh
age_very: super | totally | crazy
age_word: student | beginner | broke graduate
age_say: my roommates think that | on my phone i saw that
""",
        "30-49": """
age_open: between meetings | after the school run | on my day off
age_very: pretty | really | fairly
age_word: busy parent | commuter | home owner
age_say: my toddler does not care that | the school sent a note that
""",
        "50-64": """
age_open: for goodness sake , | after all these years | as i always say ,
age_very: awfully | terribly | extremely
age_word: person over fifty | council member | grown up
age_say: my grown children say that | at our age it is clear that
""",
        "65+": """
age_open: in my day | bless them , | since i retired
age_very: remarkably | ever so | uncommonly
age_word: pensioner | grandparent | retired person
age_say: my grandchildren tell me that | at the bridge club they say that
""",
    },
    "gender": {
        "female": """
partner: *6 husband | *2 partner | wife | *2 boyfriend
gender_word: woman | lady
""",
        "male": """
partner: *6 wife | *2 partner | husband | *2 girlfriend
gender_word: man | guy
""",
    },
    "region": {
        "north": "region_word: north\nregion_tail: up by the lakes | despite the frost outside",
        "south": "region_word: south\nregion_tail: down by the bay | in the evening breeze",
        "east": "region_word: east\nregion_tail: down by the docks | before the ferry left",
        "west": "region_word: west\nregion_tail: out by the canyon | under the desert sun",
    },
    "occupation": {
        "teacher": "job: teacher\njob_noun: pupils\njob_open: between two lessons",
        "nurse": "job: nurse\njob_noun: patients\njob_open: after my night shift",
        "engineer": "job: engineer\njob_noun: technicians\njob_open: after the site visit",
        "cook": "job: cook\njob_noun: kitchen staff\njob_open: before the dinner rush",
        "driver": "job: driver\njob_noun: passengers\njob_open: at the end of my route",
        "clerk": "job: clerk\njob_noun: customers\njob_open: during office hours",
        "farmer": "job: farmer\njob_noun: farm hands\njob_open: after feeding the cattle",
        "lawyer": "job: lawyer\njob_noun: clients\njob_open: after the hearing",
    },
}
"""Private attribute -> class -> the rules that colour the wording of its authors, weakly."""
