"""Rules of each topic: what its authors do, with what, where and with whom."""

from __future__ import annotations

from typing import Final

HEALTH: Final = """
thing: prescription | bandage | thermometer | pill | blood test | vaccine | walking stick
  | hearing aid | pair of glasses | ointment | medical bill | appointment card | inhaler | cast
place: clinic | pharmacy | hospital | waiting room | emergency room | ward | rehab centre | surgery
helper: doctor | nurse | dentist | surgeon | therapist | pharmacist | midwife | specialist | medic
medicine: painkillers | antibiotics | cough syrup | vitamins | sleeping pills | eye drops | aspirin
illness: cold | fever | headache | sore throat | rash | cough | migraine | stomach ache | infection
body: knee | shoulder | ankle | elbow | wrist | back | neck | tooth | left foot | right ear
exam: x-ray | scan | check-up | eye test | allergy test | blood sample
habit: smoking | biting my nails | skipping breakfast | drinking coffee | staying up late
exercise: stretching exercises | breathing exercises | a short walk | yoga | gentle push-ups
act: take the {medicine} twice a day | swallow two {medicine} with a glass of water
  | run out of {medicine} | ask the {helper} for more {medicine} | recover from the {illness}
  | stay in bed with a bad {illness} | catch a nasty {illness} | suffer from a {illness}
  | break a {body} while skiing | put ice on the swollen {body} | rub some cream on my {body}
  | complain about a sore {body} | have a {exam} at the {place} | book a {exam} for next month
  | wait two weeks for the {exam} | get the results of the {exam} | quit {habit} for good
  | do {exercise} every morning | try {exercise} against the pain | see a {helper} about my {body}
  | make an appointment with the {helper} | cancel the appointment with the {helper}
  | get a shot in the arm | measure my blood pressure | lose a lot of weight | count every calorie
  | donate blood | keep a food diary | read the label on the bottle | call an ambulance
  | faint in the {place}
story: the {helper} looked at my {body} and ordered a {exam} | my {body} has been sore for weeks
  | the {medicine} did not help against the {illness} | the {illness} kept me awake all night
  | half of the office was down with a {illness} | the {helper} prescribed {medicine} for the {illness}
  | the pain in my {body} went away after some {exercise}
  | visiting hours at the {place} are far too short | the side effects of the {medicine} scared me
  | the {helper} listened carefully and took notes | my health insurance covered the {exam}
adj_topic: painful | contagious | medical | sterile | chronic
adj_good: healthy | gentle | healing | soothing | reassuring
adj_bad: infected | swollen | unbearable | dizzying | bitter
state_topic: covered by insurance | in the medicine cabinet | on prescription only
state_good: fully healed | free of charge
state_bad: past its date | out of stock
topic_fact: {PERSON} broke {his} {body} near {LOC} | doctor {PERSON} at {ORG} ordered a {exam}
  | {PERSON} spent a week at {ORG} with a bad {illness} | the {exam} at {ORG} cost {MONEY}
  | my appointment with doctor {PERSON} is on {DATE} at {TIME} | {PERSON} lost {QUANTITY} in a year
  | the {helper} at {ORG} in {GPE} speaks {LANGUAGE} | {ORG} sent the results to {EMAIL}
  | {PERSON} takes {PRODUCT} against {his} {illness} | {PERCENT} of us caught a {illness} in {GPE}
  | the ambulance took {PERSON} to {ORG} at {TIME} | {PERSON} walked {QUANTITY} for the {EVENT}
"""

TRAVEL: Final = """
thing: suitcase | passport | boarding pass | road map | guidebook | rental car | tent | backpack
  | train ticket | travel pillow | souvenir | postcard | camera | sleeping bag | visa
place: airport | train station | hotel | harbour | campsite | museum | hostel | old town | beach
helper: tour guide | pilot | travel agent | receptionist | taxi driver | flight attendant | porter
ride: night train | early flight | ferry | shuttle bus | direct flight | cable car | rental bike
lodging: single room | double room | cabin | small apartment | room with a view | bunk bed
sight: castle | cathedral | lighthouse | waterfall | ruins | palace | royal gardens | volcano
luggage: bags | suitcases | belongings | winter clothes | swimming things | hiking boots
trip: honeymoon | weekend trip | cruise | road trip | hiking tour | business trip | school trip
delay: a flat tyre | a missing bag | a delayed flight | an expired passport | heavy traffic
act: miss the {ride} by two minutes | take the {ride} to the coast | book a {lodging} by the sea
  | reserve a {lodging} for three nights | share a {lodging} with strangers | check out of the {place}
  | climb up to the {sight} at sunrise | take pictures of the {sight} | visit the famous {sight}
  | get lost near the {sight} | pack the {luggage} the night before | lose all of our {luggage}
  | leave the {luggage} at the {place} | plan a {trip} to the islands | save money for a {trip}
  | come back from a long {trip} | deal with {delay} | blame the {helper} for {delay}
  | change trains twice | fly over the mountains | go through customs | stand in line at passport control
  | exchange money at the {place} | rent a car with a full tank | sleep under the stars
  | wander through the narrow streets | send postcards to everyone | haggle over the price of a {thing}
  | ask the {helper} for directions | watch the boats in the {place} | drive along the coast
story: the {ride} was delayed because of {delay} | our {lodging} had no hot water
  | the view from the {lodging} took our breath away | the {sight} is closed to visitors in winter
  | the {helper} showed us a shortcut to the {sight} | the {trip} ended with {delay}
  | the {ride} left from the wrong platform | nobody had told us about the {sight}
  | the queue at the {sight} was endless | my {luggage} arrived three days later
  | we spent most of the {trip} looking for a {lodging}
adj_topic: foreign | remote | coastal | scenic | tropical
adj_good: breathtaking | picturesque | unforgettable | charming | sunny
adj_bad: overpriced | touristy | overcrowded | filthy | stressful
state_topic: at the lost property office | in the overhead locker | booked out
state_good: cheaper online | on the house
state_bad: stuck at customs | double booked
topic_fact: we flew from {GPE} to {GPE} with {ORG} | {PERSON} met us at the {FAC} in {GPE}
  | the {ride} to {GPE} leaves at {TIME} on {DATE} | {PERSON} booked a {lodging} at {ORG} for {MONEY}
  | we hiked {QUANTITY} around {LOC} with {PERSON} | the {sight} near {LOC} opens at {TIME}
  | {PERSON} speaks {LANGUAGE} , which helped in {GPE} | a {NORP} couple shared our {lodging} in {GPE}
  | {ORG} lost the {luggage} of {PERSON} in {GPE} | we sailed across {LOC} on {DATE}
  | {PERSON} missed the {ride} to {GPE} | a {ride} from {GPE} to {LOC} costs {MONEY}
  | {PERSON} wrote {WORK_OF_ART} on a {trip} to {GPE} | hotels in {GPE} are {PERCENT} cheaper in winter
"""

WORK: Final = """
thing: laptop | printer | contract | spreadsheet | invoice | office chair | company car | keyboard
  | headset | whiteboard | filing cabinet | business card | door badge | coffee machine
place: office | meeting room | warehouse | canteen | factory | headquarters | call centre | workshop
helper: manager | assistant | accountant | secretary | intern | supervisor | consultant | recruiter
report_: annual report | sales figures | monthly budget | project plan | minutes of the meeting
meeting: staff meeting | job interview | conference call | training course | performance review
money: salary | bonus | pay rise | pension | expenses | overtime pay | travel allowance
task: inventory | payroll | paperwork | customer complaints | night shift | new website
software: database | operating system | mail server | backup | payment system | spam filter
act: finish the {report_} ahead of schedule | rewrite the {report_} from scratch
  | present the {report_} to the board | print out the {report_} | sit through a long {meeting}
  | prepare for the {meeting} | arrive late for the {meeting} | postpone the {meeting} by a week
  | negotiate a better {money} | wait for the {money} to arrive | ask for a higher {money}
  | take care of the {task} | fall behind with the {task} | share the {task} with the {helper}
  | update the {software} overnight | restart the {software} after the power cut
  | reset the password of the {software} | hand in my notice | work overtime on weekends
  | sign the contract with a new supplier | apply for a job in another department
  | reply to all of the emails | meet the deadline | get promoted to team leader | hire a new {helper}
  | train the new {helper} | argue with the {helper} over the {report_} | go on strike for better {money}
  | work from home on fridays | fix the printer on our floor | order new chairs for the {place}
story: the {software} crashed in the middle of the {meeting} | the {helper} forgot to send the {report_}
  | my {money} was paid two weeks late | the {meeting} could have been an email
  | the board turned down the {report_} without a word | the {task} took longer than planned
  | our {helper} is on parental leave until spring | the deadline for the {report_} was moved
  | nobody had made a copy of the {software} | the company cut every {money} by a tenth
  | the {helper} praised my work on the {report_}
adj_topic: professional | confidential | urgent | corporate | temporary
adj_good: productive | efficient | well paid | rewarding | flexible
adj_bad: underpaid | chaotic | bureaucratic | unproductive | outdated
state_topic: on my desk | approved by the board | under review
state_good: signed and sealed | ahead of schedule
state_bad: full of errors | over budget
topic_fact: {PERSON} started as a {helper} at {ORG} on {DATE} | {ORG} moved its {place} to {GPE}
  | the {meeting} with {PERSON} starts at {TIME} | {ORG} paid {PERSON} {MONEY} for the {report_}
  | {PERSON} left {ORG} after the {meeting} | send the {report_} to {PERSON} at {FRIEND_EMAIL}
  | {ORG} cut the {money} by {PERCENT} | the {NORP} branch of {ORG} closes on {DATE}
  | {PERSON} presented the new {PRODUCT} in {GPE} | {ORG} sold the {place} at the {FAC}
  | our {helper} {PERSON} translated the {report_} into {LANGUAGE}
  | the {PRODUCT} brought {ORG} more than {MONEY} | {PERSON} gave a talk at the {EVENT} in {GPE}
"""

FOOD: Final = """
thing: frying pan | recipe book | bread knife | oven | blender | teapot | kettle | wooden spoon
  | cutting board | lunch box | fridge | salad bowl | coffee mug | shopping list | napkin
place: kitchen | restaurant | bakery shop | supermarket | food market | cafe | pizza place | diner
helper: cook | waiter | baker | butcher | waitress | barista | chef | greengrocer | cashier
dish: lasagna | pumpkin soup | fried rice | chicken curry | mushroom risotto | bean stew | omelette
cake: chocolate cake | apple pie | cheesecake | birthday cake | carrot cake | banana bread
veg: onions | carrots | potatoes | mushrooms | peppers | tomatoes | green beans | garlic cloves
drink: lemonade | orange juice | herbal tea | black coffee | red wine | sparkling water | cider
spice: salt | pepper | cinnamon | ginger | chili powder | fresh basil | nutmeg | lemon juice
meal: breakfast | dinner | lunch | a late supper | a picnic | brunch
act: chop the {veg} into small pieces | peel the {veg} for the {dish} | fry the {veg} in butter
  | buy fresh {veg} at the market | cook a big pot of {dish} | order the {dish} of the day
  | burn the {dish} again | taste the {dish} before serving | bake a {cake} for the party
  | cut the {cake} into twelve slices | decorate the {cake} with cherries | eat the last piece of {cake}
  | add a pinch of {spice} | season the {dish} with {spice} | use too much {spice}
  | drink a glass of {drink} | pour some {drink} for the guests | spill {drink} on the tablecloth
  | have {meal} in the garden | skip {meal} altogether | invite the neighbours for {meal}
  | wash the dishes by hand | set the table for eight | leave a generous tip
  | send the {dish} back to the kitchen | let the dough rise overnight | stir the sauce with a {thing}
  | give up sugar for a month | grow {veg} on the balcony | ask the {helper} for the recipe
  | book a table for four
story: the {dish} needs a little more {spice} | the {cake} came out of the oven too early
  | the {veg} from our garden taste of nothing | the {helper} recommended the {dish} with {drink}
  | there was a hair in my {dish} | the secret of a good {dish} is {spice}
  | the smell of {cake} filled the whole house | the {drink} was warm and the {dish} was cold
  | the kids refused to eat the {veg} | we ran out of {spice} before the {dish} was done
  | {meal} was served on the terrace
adj_topic: spicy | sweet | salty | vegetarian | homemade
adj_good: delicious | tasty | juicy | crispy | mouth-watering
adj_bad: tasteless | greasy | burnt | stale | overcooked
state_topic: in the dishwasher | on the menu | in the oven
state_good: freshly baked | cooked to perfection
state_bad: past the sell-by date | full of crumbs
topic_fact: {PERSON} cooked {dish} for us in {GPE} | the {dish} at {ORG} costs {MONEY}
  | we had {meal} at {ORG} near the {FAC} | {PERSON} bakes the best {cake} in {GPE}
  | {ORG} opened a {place} in {GPE} on {DATE} | i booked a table at {ORG} for {TIME}
  | {PERSON} served {NORP} {dish} at the {EVENT} | {PERSON} put {PRODUCT} into the {dish}
  | the {helper} at {ORG} gave {PERSON} {his} recipe | the price of {veg} rose by {PERCENT}
  | {PERSON} bought {QUANTITY} of {veg} from {ORG} | the {cake} for {PERSON} must be ready at {TIME}
"""

SPORT: Final = """
thing: tennis racket | football | helmet | gold medal | trophy | season ticket | jersey | whistle
  | pair of skates | fishing rod | yoga mat | surfboard | stopwatch | scoreboard | ski pass
place: stadium | gym | swimming pool | tennis court | locker room | golf course | ice rink | arena
helper: coach | referee | goalkeeper | trainer | umpire | team captain | striker | lifeguard
match: semi-final | cup final | friendly match | home game | penalty shoot-out | derby | playoff
race: marathon | relay race | triathlon | bicycle race | hundred metre sprint | obstacle course
injury: torn muscle | twisted ankle | concussion | broken rib | stiff neck | bruised hip
skill: backhand | free kick | butterfly stroke | long jump | headstand | serve | somersault
team: home team | youth team | national team | away team | second team | women's team
act: win the {match} in extra time | lose the {match} by a single goal | watch the {match} on a big screen
  | buy tickets for the {match} | sign up for the {race} | finish the {race} in last place
  | train for the {race} all winter | drop out of the {race} | practise the {skill} for hours
  | improve my {skill} | teach the kids a {skill} | cheer for the {team} | play for the {team}
  | join the {team} as a substitute | get over a {injury} | miss the season with a {injury}
  | warm up with the {team} | score twice in the first half | argue with the referee
  | break the club record | lift weights at the gym | swim forty lengths before work
  | throw the ball over the fence | run around the lake | get a yellow card | sing the club anthem
  | carry the {team} to victory | wear the {thing} of the {team} | go skating with the {helper}
  | celebrate the victory of the {team} | lace up my running shoes
story: the {team} scored three goals in the {match} | the {helper} was sent off in the {match}
  | the {match} ended in a draw | a {injury} ruined the {race} for me
  | the {helper} dropped our best player before the {match} | rain stopped play during the {match}
  | the {team} has not won a {match} since spring | the crowd went wild after the {skill}
  | the {race} starts and ends at the town hall | my {skill} is still not good enough for the {team}
  | the {helper} blamed the {injury} for the defeat
adj_topic: athletic | competitive | physical | amateur | muscular
adj_good: unbeatable | thrilling | legendary | sporty | energetic
adj_bad: exhausting | one-sided | clumsy | violent | unsporting
state_topic: in the locker | at half time | sold in the fan shop
state_good: signed by the captain | good as gold
state_bad: sold out | covered in mud
topic_fact: {PERSON} scored twice for {ORG} in the {match} | {ORG} beat {ORG} in the {match} in {GPE}
  | {PERSON} ran {QUANTITY} along {LOC} before the {race} | the {match} in {GPE} starts at {TIME}
  | {PERSON} won the {EVENT} with {his} {skill} | tickets for the {match} at the {FAC} cost {MONEY}
  | {ORG} signed the {NORP} {helper} {PERSON} | the {race} around {LOC} takes place on {DATE}
  | {PERSON} missed the {EVENT} with a {injury} | {ORG} paid {MONEY} for a {helper} from {GPE}
  | {PERSON} coaches the {team} of {ORG} | {PERCENT} of the seats at the {FAC} were empty
"""

TOPICS: Final = {"health": HEALTH, "travel": TRAVEL, "work": WORK, "food": FOOD, "sport": SPORT}
"""Topic label -> its rules."""
